// The recommended rules and a few more. The packages are outside of the source tree, in
// $STROBE_JS_TOOLS.
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.STROBE_JS_TOOLS, "package.json"));
const js = require("@eslint/js");
const globals = require("globals");

export default [
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-unused-vars": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      "no-var": "error",
      "one-var": ["error", { initialized: "never" }],
      "max-lines": ["error", { max: 700 }],
      "max-lines-per-function": ["error", { max: 80, skipBlankLines: true }],
    },
  },
  { files: ["viewer/web/*/*.js"], languageOptions: { globals: globals.browser } },
  {
    files: ["**/*.mjs"],
    // Tests run in Node.js but pass functions to the page, so they use the globals of both.
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
    rules: { "max-lines": "off", "max-lines-per-function": "off" },
  },
];
