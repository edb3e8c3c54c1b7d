// Stand-in for the framework header that the tensor view header asks for.
#pragma once
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
