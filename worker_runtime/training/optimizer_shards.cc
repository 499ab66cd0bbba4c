#include "ddp/optimizer_shards.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ddp/error.h"
#include "worker_runtime/training/shard_plan.h"

namespace ddp {
namespace {

/// A broadcast costs about as much as to copy so many bytes twice.
constexpr std::size_t kPackedBytesMax = std::size_t{256} * 1024;

}  // namespace

/// Every rank computes the same plan, from sizes alone: nothing has to be agreed on.
OptimizerShards::OptimizerShards(ProcessGroup& group, std::span<const Parameter> parameters)
    : group_(&group) {
  std::vector<std::size_t> sizes;
  for (const Parameter& parameter : parameters) {
    values_.push_back(parameter.value);
    sizes.push_back(parameter.value.size_bytes());
  }
  owners_ = plan_shards(sizes, group.size());
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == group.rank()) {
      own_.push_back(i);
    }
  }
  lay_out_packs();
}

/// From sizes and types alone as well.
void OptimizerShards::lay_out_packs() {
  packs_.resize(static_cast<std::size_t>(group_->size()));
  in_packs_.resize(values_.size());
  if (group_->size() == 1) {
    return;
  }
  // One type on one device, the first one's: a model that has others sends those alone.
  const auto fits = [this](const Tensor& value) {
    return value.size_bytes() <= kPackedBytesMax && value.dtype() == values_[0].dtype() &&
           value.device() == values_[0].device();
  };
  std::vector<std::size_t> places(values_.size());
  std::vector<std::size_t> sizes(packs_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    std::size_t& size = sizes[static_cast<std::size_t>(owners_[i])];
    places[i] = size;
    size += fits(values_[i]) ? values_[i].size() : 0;
  }
  for (std::size_t rank = 0; rank < packs_.size(); ++rank) {
    if (sizes[rank] > 0) {
      packs_[rank] = Tensor::empty({static_cast<std::int64_t>(sizes[rank])}, values_[0].dtype(),
                                   values_[0].device());
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (fits(values_[i])) {
      in_packs_[i] =
          packs_[static_cast<std::size_t>(owners_[i])].view(places[i], values_[i].size());
    }
  }
}

void OptimizerShards::share() {
  std::vector<Work> works;
  // All at once, so that no rank waits between two of them.
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!in_packs_[i].defined()) {
      works.push_back(group_->broadcast_async(values_[i], owners_[i]));
    } else if (owners_[i] == group_->rank()) {
      in_packs_[i].copy_from(values_[i]);
    }
  }
  for (std::size_t rank = 0; rank < packs_.size(); ++rank) {
    if (packs_[rank].defined()) {
      works.push_back(group_->broadcast_async(packs_[rank], static_cast<int>(rank)));
    }
  }
  for (Work& work : works) {
    work.wait();
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (in_packs_[i].defined() && owners_[i] != group_->rank()) {
      values_[i].copy_from(in_packs_[i]);
    }
  }
}

std::vector<Tensor> OptimizerShards::gather(std::span<const Tensor> own, bool keep) {
  require_fit(own);
  std::vector<Tensor> whole;
  Tensor spare;  // for what passes through a rank that does not keep it
  std::size_t next = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Tensor& like = values_[i];
    Tensor tensor;
    if (owners_[i] == group_->rank()) {
      tensor = own[next++];
    } else if (keep) {
      tensor = Tensor::empty(like.shape(), like.dtype(), like.device());
    } else {
      if (spare.size_bytes() < like.size_bytes() || spare.dtype() != like.dtype()) {
        spare =
            Tensor::empty({static_cast<std::int64_t>(like.size())}, like.dtype(), like.device());
      }
      tensor = spare.view(0, like.size());
    }
    group_->broadcast(tensor, owners_[i]);
    if (keep) {
      whole.push_back(std::move(tensor));
    }
  }
  return whole;
}

void OptimizerShards::scatter(std::span<const Tensor> whole, std::span<const Tensor> own) const {
  require_fit(own);
  if (whole.size() != values_.size()) {
    throw InvalidArgument(
        fmt::format("optimizer shards: {} tensors are not one for each of {} parameters",
                    whole.size(), values_.size()));
  }
  for (std::size_t k = 0; k < own_.size(); ++k) {
    // gather() returned the owner's own tensor: then it is there already.
    if (own[k].raw() != whole[own_[k]].raw()) {
      own[k].copy_from(whole[own_[k]]);
    }
  }
}

void OptimizerShards::require_fit(std::span<const Tensor> own) const {
  const bool fits =
      own.size() == own_.size() &&
      std::equal(own.begin(), own.end(), own_.begin(), [this](const Tensor& tensor, std::size_t i) {
        return tensor.shape() == values_[i].shape() && tensor.dtype() == values_[i].dtype() &&
               tensor.device() == values_[i].device();
      });
  if (!fits) {
    throw InvalidArgument(
        "optimizer shards: the state needs one tensor for each own parameter, of its shape, type "
        "and device");
  }
}

}  // namespace ddp
