// The user's browser.
#pragma once
#include <string>

namespace strobe {

// Opens the URL in the browser of the user's desktop, without waiting for it. False if there is no
// desktop or no browser: the user then opens the URL.
bool OpenBrowser(const std::string& url);

}  // namespace strobe
