// DDP_EXPORT marks what the shared library offers; everything else in it is hidden.
#pragma once

#define DDP_EXPORT __attribute__((visibility("default")))
