#include "agent/output/open_line.h"

#include "rendezvous/base/check.h"

namespace ddprun {

void OpenLine::append(const void* stream, std::string_view text, std::string& to) {
  DDP_CHECK(stream != nullptr, "a stream is told from none");
  // The end of a line that has ended already.
  if (text.starts_with('\n') && cut_.erase(stream) > 0) {
    text.remove_prefix(1);
  }
  if (text.empty()) {
    return;
  }
  if (open_by_ != stream && end()) {
    to += '\n';
  }
  cut_.erase(stream);
  to += text;
  open_by_ = text.back() == '\n' ? nullptr : stream;
}

bool OpenLine::end() {
  if (open_by_ == nullptr) {
    return false;
  }
  cut_.insert(open_by_);
  open_by_ = nullptr;
  return true;
}

}  // namespace ddprun
