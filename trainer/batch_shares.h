// How the samples of a step are divided among ranks of different speed. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp {

/// `samples` in proportion to the weights, all above 0: by largest remainders, of equal ones the
/// first rank's. Each rank has at least one, of which there must be as many as ranks: who has none
/// is never measured again.
std::vector<std::size_t> divide_samples(std::size_t samples, const std::vector<double>& weights);

/// "12,4".
std::string shares_text(const std::vector<std::size_t>& shares);
/// From such a text; none when it is no division of `samples` among `ranks`.
std::vector<std::size_t> shares_from(const std::string& text, std::size_t samples,
                                     std::size_t ranks);

}  // namespace ddp
