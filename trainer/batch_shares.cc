#include "trainer/batch_shares.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "ddp/error.h"

namespace ddp {

std::vector<std::size_t> divide_samples(std::size_t samples, const std::vector<double>& weights) {
  if (weights.empty() || samples < weights.size() ||
      !std::all_of(weights.begin(), weights.end(),
                   [](double weight) { return weight > 0 && std::isfinite(weight); })) {
    throw InvalidArgument("samples are divided by weights above 0, and each rank has one of them");
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::size_t> shares;
  std::vector<double> rests;
  for (const double weight : weights) {
    const double exact = static_cast<double>(samples) * (weight / sum);
    shares.push_back(std::max<std::size_t>(1, static_cast<std::size_t>(exact)));
    rests.push_back(exact - static_cast<double>(shares.back()));
  }
  // Rounded down they come to too few, the ones that were raised to 1 apart: those may come to too
  // many, and whoever is furthest above its part gives.
  auto given = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
  for (; given < samples; ++given) {
    const auto at = std::max_element(rests.begin(), rests.end()) - rests.begin();
    ++shares[static_cast<std::size_t>(at)];
    rests[static_cast<std::size_t>(at)] -= 1;
  }
  for (; given > samples; --given) {
    // The last of equal ones, as the first is given most.
    std::size_t at = shares.size();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] > 1 && (at == shares.size() || rests[i] <= rests[at])) {
        at = i;
      }
    }
    --shares[at];
    rests[at] += 1;
  }
  return shares;
}

std::string shares_text(const std::vector<std::size_t>& shares) {
  std::string text;
  for (const std::size_t share : shares) {
    text += (text.empty() ? "" : ",") + std::to_string(share);
  }
  return text;
}

std::vector<std::size_t> shares_from(const std::string& text, std::size_t samples,
                                     std::size_t ranks) {
  std::vector<std::size_t> shares;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::size_t share = 0;
    const auto [behind, error] = std::from_chars(at, end, share);
    // Of another run, or not ours at all: equal shares are right then.
    if (error != std::errc() || share == 0 || share > samples || (behind < end && *behind != ',')) {
      return {};
    }
    shares.push_back(share);
    at = behind < end ? behind + 1 : end;
    if (at == end && behind < end) {
      return {};  // a comma, and nothing after it
    }
  }
  const auto sum = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
  return shares.size() == ranks && sum == samples ? shares : std::vector<std::size_t>{};
}

}  // namespace ddp
