// Asio itself, once: every file that uses it is compiled with BOOST_ASIO_SEPARATE_COMPILATION
// (CMakeLists.txt), and finds here what it would otherwise compile again.
#include <boost/asio/impl/src.hpp>
