// CudnnLibrary: cuDNN's functions, found at run time (DDPRUN_CUDNN_LIBRARY, else libcudnn.so.9).
#pragma once

#include "trainer/layers/cuda/cudnn_abi.h"

namespace ddp::cudnn {

struct CudnnLibrary {
  std::size_t (*get_version)();
  const char* (*get_error_string)(Status);
  void (*get_last_error_string)(char* text, std::size_t bytes);
  Status (*create)(Handle**);
  Status (*create_descriptor)(DescriptorType, Descriptor*);
  Status (*destroy_descriptor)(Descriptor);
  Status (*set_attribute)(Descriptor, Attribute, AttributeType, std::int64_t count,
                          const void* values);
  Status (*get_attribute)(Descriptor, Attribute, AttributeType, std::int64_t wanted,
                          std::int64_t* count, void* values);
  Status (*finalize)(Descriptor);
  Status (*execute)(Handle*, Descriptor plan, Descriptor variant_pack);
};

/// Opened once per process. Throws DoNotRetry: which file was looked for, what is missing.
const CudnnLibrary& cudnn_library();

}  // namespace ddp::cudnn
