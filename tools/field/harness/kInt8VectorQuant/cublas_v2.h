#pragma once  // stub (ours)
