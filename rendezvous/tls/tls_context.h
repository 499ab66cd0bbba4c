// TlsContext: whom one side of TLS trusts, and as whom it shows itself, as its files were when it
// was made: a client of some service, or an agent among agents. Each connection takes a renewed
// one: certificates of a day or an hour are replaced on disk while a job runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Paths of PEM files.
struct TlsFiles {
  std::string ca = {};           ///< of authorities; empty: those that the machine trusts
  std::string certificate = {};  ///< of the client, with what leads to its authority; empty: none
  std::string key = {};          ///< of that certificate, without a passphrase

  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

class TlsContext {
 public:
  /// Of a client. Reads the files. The error names the one that does not do, or says that OpenSSL
  /// is missing.
  static Result<std::shared_ptr<const TlsContext>> make(const TlsFiles& files);
  /// Of an agent, for both sides of a connection between two: TLS 1.3, and each side shows a
  /// certificate of the authority. All three files are given.
  static Result<std::shared_ptr<const TlsContext>> make_mutual(const TlsFiles& files);
  /// As its files are now; the same one where they are as they were. The error says which one does
  /// not do at this moment (somebody is writing it), or is no plain file, which would be waited
  /// for: then what was read before still counts.
  static Result<std::shared_ptr<const TlsContext>> renewed(
      std::shared_ptr<const TlsContext> context);
  [[nodiscard]] const TlsFiles& files() const;
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  struct Impl;
  enum class Kind : std::uint8_t { client, mutual };
  static Result<std::shared_ptr<const TlsContext>> of(Kind kind, const TlsFiles& files);
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
