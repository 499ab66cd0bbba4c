// StorageError: what a disk does not take, told apart from mistakes in options and data.
#pragma once

#include "ddp/error.h"

namespace ddp {

/// The disk failed. Another attempt may find it mended: not an error that ends the job.
class StorageError : public Error {
 public:
  using Error::Error;
};

}  // namespace ddp
