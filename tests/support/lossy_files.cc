#include "tests/support/lossy_files.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace ddp {

using ddprun::errno_error;
using ddprun::Result;

class LossyFiles::Output : public OutputFile {
 public:
  Output(LossyFiles& disk, std::shared_ptr<Node> node, Path path)
      : disk_(&disk), node_(std::move(node)), path_(std::move(path)) {}

  Result<void> append(std::span<const std::byte> bytes) override {
    const bool fails = disk_->next_call_fails();
    const auto room =
        disk_->capacity_bytes_ - std::min(disk_->capacity_bytes_, disk_->used_bytes());
    const auto fitting = fails ? bytes.size() / 2 : std::min(room, bytes.size());
    node_->content.insert(node_->content.end(), bytes.begin(),
                          bytes.begin() + static_cast<std::ptrdiff_t>(fitting));
    if (fails) {
      return errno_error(EIO, "cannot write", path_.string());
    }
    if (fitting < bytes.size()) {
      return errno_error(ENOSPC, "cannot write", path_.string());
    }
    return {};
  }

  Result<void> sync() override {
    if (disk_->next_call_fails()) {
      return errno_error(EIO, "cannot bring it to the disk", path_.string());
    }
    node_->durable_content = node_->content;
    return {};
  }

  Result<void> close() override {
    if (disk_->next_call_fails()) {
      return errno_error(EIO, "cannot close", path_.string());
    }
    return {};
  }

 private:
  LossyFiles* disk_;
  std::shared_ptr<Node> node_;
  Path path_;
};

LossyFiles::LossyFiles() : root_(std::make_shared<Node>()) {
  root_->is_directory = true;
}

bool LossyFiles::next_call_fails() {
  if (hooked_call_ == calls_) {
    hooked_call_.reset();
    hook_();
  }
  const auto call = calls_++;
  return call == failing_call_ || (dead_from_call_ && call >= *dead_from_call_);
}

void LossyFiles::run_before_call(std::size_t number, std::function<void()> what) {
  hooked_call_ = calls_ + number;
  hook_ = std::move(what);
}

std::size_t LossyFiles::size_of_tree(const Node& node) {
  std::size_t size = node.content.size();
  for (const auto& [name, child] : node.names) {
    size += size_of_tree(*child);
  }
  return size;
}

std::size_t LossyFiles::used_bytes() const {
  return size_of_tree(*root_);
}

void LossyFiles::heal() {
  withheld_.clear();
  failing_call_.reset();
  dead_from_call_.reset();
  capacity_bytes_ = std::numeric_limits<std::size_t>::max();
}

void LossyFiles::lose(Node& node) {
  node.content = node.durable_content;
  node.names = node.durable_names;
  for (auto& [name, child] : node.names) {
    lose(*child);
  }
}

void LossyFiles::crash() {
  heal();
  lose(*root_);
}

std::shared_ptr<LossyFiles::Node> LossyFiles::find(const Path& path) const {
  auto node = root_;
  for (const auto& part : path.relative_path()) {
    const auto child = node->names.find(part.string());
    if (child == node->names.end()) {
      return nullptr;
    }
    node = child->second;
  }
  return node;
}

std::vector<std::byte>& LossyFiles::bytes(const Path& path) {
  const auto node = find(path);
  if (node == nullptr || node->is_directory) {
    throw std::logic_error("no such file: " + path.string());
  }
  return node->content;
}

std::optional<Unread> LossyFiles::refuses_reads(const Path& path) {
  if (const auto withheld = withheld_.find(path); withheld != withheld_.end()) {
    return Unread{errno_error(withheld->second, "cannot be read", path.string()),
                  fault_of(withheld->second)};
  }
  return std::nullopt;
}

std::optional<Unread> LossyFiles::refuses_writes(const Path& path) {
  if (closed_.contains(path)) {
    return Unread{errno_error(EACCES, "cannot be written to", path.string()), Fault::forbidden};
  }
  return std::nullopt;
}

Result<bool> LossyFiles::make_directory(const Path& path) {
  const bool fails = next_call_fails() || closed_.contains(path.parent_path());
  if (fails || find(path.parent_path()) == nullptr) {
    return errno_error(fails ? EIO : ENOENT, "cannot make the directory", path.string());
  }
  return make(path);
}

Result<bool> LossyFiles::make_directories(const Path& path) {
  if (next_call_fails()) {
    return errno_error(EIO, "cannot make the directory", path.string());
  }
  return make(path);
}

Result<bool> LossyFiles::make(const Path& path) {
  bool made = false;
  auto node = root_;
  for (const auto& part : path.relative_path()) {
    auto& child = node->names[part.string()];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->is_directory = true;
      made = true;
    }
    if (!child->is_directory) {
      return errno_error(ENOTDIR, "cannot make the directory", path.string());
    }
    node = child;
  }
  return made;
}

ReadResult<std::vector<std::string>> LossyFiles::list(const Path& path) {
  if (next_call_fails()) {
    return Unread{errno_error(EIO, "cannot be read as a directory", path.string()), fault_of(EIO)};
  }
  std::vector<std::string> names;
  const auto node = find(path);
  if (node != nullptr && !node->is_directory) {
    return Unread{errno_error(ENOTDIR, "cannot be read as a directory", path.string())};
  }
  if (node != nullptr) {
    for (const auto& [name, child] : node->names) {
      names.push_back(name);
    }
  }
  return names;
}

ReadResult<std::vector<std::byte>> LossyFiles::read(const Path& path, std::size_t bytes_max) {
  const auto withheld = withheld_.find(path);
  if (next_call_fails() || withheld != withheld_.end()) {
    const int reason = withheld == withheld_.end() ? EIO : withheld->second;
    return Unread{errno_error(reason, "cannot be read", path.string()), fault_of(reason)};
  }
  const auto node = find(path);
  if (node == nullptr || node->is_directory || node->content.size() > bytes_max) {
    return Unread{errno_error(node == nullptr ? ENOENT : EINVAL, "cannot be read", path.string())};
  }
  return node->content;
}

Result<std::unique_ptr<OutputFile>> LossyFiles::create(const Path& path) {
  const bool fails = next_call_fails();
  const auto parent = find(path.parent_path());
  if (fails || parent == nullptr) {
    return errno_error(fails ? EIO : ENOENT, "cannot be created", path.string());
  }
  auto& node = parent->names[path.filename().string()];
  if (node == nullptr) {
    node = std::make_shared<Node>();
  }
  node->content.clear();
  return std::unique_ptr<OutputFile>(std::make_unique<Output>(*this, node, path));
}

Result<void> LossyFiles::sync_directory(const Path& path) {
  const bool fails = next_call_fails();
  if (const auto withheld = withheld_.find(path); withheld != withheld_.end()) {
    return errno_error(withheld->second, "cannot be opened as a directory", path.string());
  }
  const auto node = find(path);
  if (fails || node == nullptr) {
    return errno_error(fails ? EIO : ENOENT, "cannot bring it to the disk", path.string());
  }
  node->durable_names = node->names;
  return {};
}

Result<void> LossyFiles::rename(const Path& from, const Path& to) {
  const bool fails = next_call_fails() || closed_.contains(from);
  const auto node = find(from);
  const auto target = find(to);
  if (node == nullptr || find(to.parent_path()) == nullptr) {
    return errno_error(ENOENT, "cannot be renamed", from.string());
  }
  if (fails || target != nullptr) {
    return errno_error(fails ? EIO : EEXIST, "cannot be renamed", from.string());
  }
  find(from.parent_path())->names.erase(from.filename().string());
  find(to.parent_path())->names[to.filename().string()] = node;
  return {};
}

Result<void> LossyFiles::remove_all(const Path& path) {
  if (next_call_fails()) {
    // Taken apart half: the first entry of the directory is gone.
    const auto node = find(path);
    if (node != nullptr && !node->names.empty()) {
      node->names.erase(node->names.begin());
    }
    return errno_error(EIO, "cannot be removed", path.string());
  }
  const auto parent = find(path.parent_path());
  if (parent != nullptr) {
    parent->names.erase(path.filename().string());
  }
  return {};
}

}  // namespace ddp
