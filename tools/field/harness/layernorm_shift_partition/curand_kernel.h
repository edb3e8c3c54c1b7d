// Stand-in: the library's header names cuRAND, the kernel here needs nothing of it.
#pragma once
