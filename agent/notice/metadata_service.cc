#include "agent/notice/metadata_service.h"

#include <algorithm>

#include "agent/notice/aws_metadata.h"
#include "agent/notice/azure_metadata.h"
#include "agent/notice/gcp_metadata.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Longer than all that the services document; a sentence stays one that a person reads.
constexpr std::size_t kSaidBytesMax = 100;

}  // namespace

// Google has two keys, and waits for a change of one at a time: so they are asked side by side.
std::vector<std::unique_ptr<MetadataService>> metadata_services(NoticeKind kind) {
  std::vector<std::unique_ptr<MetadataService>> services;
  switch (kind) {
    case NoticeKind::aws:
      services.push_back(std::make_unique<AwsMetadata>());
      break;
    case NoticeKind::gcp:
      services.push_back(std::make_unique<GcpMetadata>(GcpMetadata::Key::preempted));
      services.push_back(std::make_unique<GcpMetadata>(GcpMetadata::Key::maintenance_event));
      break;
    case NoticeKind::azure:
      services.push_back(std::make_unique<AzureMetadata>());
      break;
    case NoticeKind::file:
      break;
  }
  return services;
}

std::string_view to_text(NoticeKind kind) {
  constexpr std::string_view kNames[] = {"aws", "gcp", "azure", "file"};
  const auto at = static_cast<std::size_t>(kind);
  DDP_CHECK(at < std::size(kNames), "each kind has a name");
  return kNames[at];
}

// It is somebody else's text, maybe a whole web page of a proxy, and goes to terminals.
std::string quoted_from(std::string_view said) {
  std::size_t size = std::min(said.size(), kSaidBytesMax);
  const bool cut = size < said.size();
  // Not within a letter of UTF-8: all its bytes but the first, three at most, are 10xxxxxx.
  for (int i = 0; cut && i < 3 && (static_cast<unsigned char>(said[size]) & 0xc0) == 0x80; ++i) {
    --size;
  }
  std::string text = printable(std::string(said.substr(0, size))) + (cut ? "..." : "");
  DDP_CHECK(text.size() <= kSaidBytesMax + 3, "it fits into a sentence");
  return text;
}

// Whoever listens at that address on a machine that is not in this cloud is named by its answer.
std::string unexpected(const HttpCall& request, const HttpReply& answer) {
  DDP_CHECK(request.target.starts_with('/'), "a target is a path");
  // Without the query, which is long and says nothing to a person.
  const std::string begin = request.target.substr(0, request.target.find('?'));
  return "it answers " + std::to_string(answer.status) + " '" + quoted_from(answer.body) + "' to " +
         request.method + " " + begin;
}

}  // namespace ddprun
