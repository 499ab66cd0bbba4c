#include "ddp/tensor.h"

#include <catch2/catch.hpp>

#include "ddp/error.h"

using ddp::DType;
using ddp::Tensor;

TEST_CASE("a copy of a tensor shares its memory, a clone does not", "[worker_runtime]") {
  const Tensor tensor = Tensor::from<float>({1, 2, 3});
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the copy is the subject
  const Tensor copy = tensor;
  const Tensor clone = tensor.clone();
  copy.data<float>()[0] = 9;
  CHECK(tensor.to_vector<float>() == std::vector<float>{9, 2, 3});
  CHECK(clone.to_vector<float>() == std::vector<float>{1, 2, 3});
}

TEST_CASE("a view is a range of the same memory and keeps it alive", "[worker_runtime]") {
  Tensor view;
  {
    const Tensor tensor = Tensor::from<std::int64_t>({0, 1, 2, 3, 4, 5});
    view = tensor.view(2, ddp::Shape{2, 2});
  }
  CHECK(view.shape() == ddp::Shape{2, 2});
  CHECK(view.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 3, 4, 5});
  CHECK(view.view(1, std::size_t{1}).item<std::int64_t>() == 3);
  CHECK_THROWS_AS(view.view(3, std::size_t{2}), ddp::InvalidArgument);
}

TEST_CASE("fill, zero and copy reach every type", "[worker_runtime]") {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::bf16}) {
    const Tensor tensor = Tensor::zeros({5}, dtype);
    tensor.fill(7);
    const Tensor other = Tensor::empty({5}, dtype);
    other.copy_from(tensor);
    std::vector<std::byte> bytes(other.size_bytes());
    other.copy_to_host(bytes.data());
    CHECK(bytes != std::vector<std::byte>(bytes.size()));
    other.zero();
    other.copy_to_host(bytes.data());
    CHECK(bytes == std::vector<std::byte>(bytes.size()));
  }
}

TEST_CASE("bf16 elements have two bytes, the upper half of a float's", "[worker_runtime]") {
  const Tensor tensor = Tensor::from<ddp::BFloat16>({ddp::BFloat16(1.5F), ddp::BFloat16(-2.0F)});
  CHECK(tensor.size_bytes() == 4);
  CHECK(ddp::name_of(tensor.dtype()) == "bf16");
  CHECK(tensor.data<ddp::BFloat16>()[0].bits == 0x3fc0);
  tensor.fill(-2);
  CHECK(tensor.data<ddp::BFloat16>()[0].bits == 0xc000);
  CHECK_THROWS_AS(tensor.data<float>(), ddp::InvalidArgument);
}

TEST_CASE("a scalar has one element and an empty tensor none", "[worker_runtime]") {
  CHECK(Tensor::zeros({}).size() == 1);
  CHECK(Tensor::zeros({0, 4}).size() == 0);
  CHECK(Tensor::zeros({0, 4}).raw() == nullptr);
  CHECK(Tensor::zeros({0}).defined());
  CHECK_FALSE(Tensor().defined());
  CHECK(Tensor().size() == 0);
}

TEST_CASE("wrapped memory is used in place and its owner kept", "[worker_runtime]") {
  auto owner = std::make_shared<std::vector<float>>(4, 1.5F);
  const std::weak_ptr<void> alive = owner;
  Tensor tensor = Tensor::wrap(owner->data(), {2, 2}, DType::f32, {}, owner);
  owner.reset();
  CHECK_FALSE(alive.expired());
  CHECK(tensor.values<float>()[3] == 1.5F);
  tensor = {};
  CHECK(alive.expired());
}

TEST_CASE("wrong shapes and types are refused", "[worker_runtime]") {
  const Tensor tensor = Tensor::from<float>({1, 2});
  CHECK_THROWS_AS(tensor.data<double>(), ddp::InvalidArgument);
  CHECK_THROWS_AS(tensor.item<float>(), ddp::InvalidArgument);
  CHECK_THROWS_AS(tensor.reshaped({3}), ddp::InvalidArgument);
  CHECK_THROWS_AS(Tensor::zeros({2, -1}), ddp::InvalidArgument);
  CHECK_THROWS_AS(Tensor::zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}),
                  ddp::InvalidArgument);
  CHECK_THROWS_AS(tensor.copy_from(Tensor::from<float>({1})), ddp::InvalidArgument);
  CHECK_THROWS_AS(Tensor::from(std::vector<float>{1, 2, 3}, {2}), ddp::InvalidArgument);
}

TEST_CASE("a tensor on a GPU that is not there is a device error", "[worker_runtime]") {
  CHECK_THROWS_AS(Tensor::zeros({2}, DType::f32, ddp::Device::cuda(99)), ddp::DeviceError);
}
