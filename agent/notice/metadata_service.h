// MetadataService: what is asked of a cloud's metadata service, and what its answers mean: whether
// the machine goes. One conversation, one question at a time. Pure: HttpClient sends.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/notice/notice_source.h"
#include "rendezvous/http/http_message.h"

namespace ddprun {

/// What an answer means. The texts are clauses without control characters, of bounded size.
struct Heard {
  std::string notice = {};     ///< the machine goes; empty: it stays
  std::string remark = {};     ///< worth a line, and no more; empty: nothing is
  std::string complaint = {};  ///< the answer is none that the service documents; empty: it is one
  std::chrono::milliseconds pause{0};  ///< until the next question
};

class MetadataService {
 public:
  virtual ~MetadataService() = default;
  /// The next question. It may be asked again, where no answer came.
  [[nodiscard]] virtual HttpCall next() const = 0;
  /// The answer to it.
  [[nodiscard]] virtual Heard hear(const HttpReply& answer) = 0;
};

/// The conversations with the metadata service of a cloud, which go on beside each other. (Of a
/// file there is none.)
std::vector<std::unique_ptr<MetadataService>> metadata_services(NoticeKind kind);

/// "aws"; as in --preempt-notice.
std::string_view to_text(NoticeKind kind);

/// What a service said, for a sentence: printable, and cut.
std::string quoted_from(std::string_view said);

/// Why an answer is no good: "it answers 500 to GET /latest".
std::string unexpected(const HttpCall& request, const HttpReply& answer);

}  // namespace ddprun
