import { defineConfig } from "oxlint";

import { ringOverrides } from "./ring-rule.ts";

// Their promises are for tests within tests; the runner waits for them all.
const TEST_CALLS = {
  from: "package" as const,
  package: "node:test",
  name: ["describe", "suite", "test"],
};

// Parts of src that run in a page, a process or a thread of their own.
const OWN_GLOBALS = ["dashboard", "cli", "store/sqlite"].map((folder) => `**/src/${folder}/**`);

const TAKE_THEM = "Import it from src/domain/clock/timers.ts.";
const TIMERS = [
  ...["setTimeout", "clearTimeout", "setInterval", "clearInterval"],
  ...["setImmediate", "clearImmediate", "queueMicrotask"],
];
const TIME = [
  ["Date", "now"],
  ["performance", "now"],
  ["process", "nextTick"],
  ["process", "hrtime"],
  ["AbortSignal", "timeout"],
] as const;

/** The linter's configuration. To be passed the folders by name: it would walk node_modules too. */
export default defineConfig({
  plugins: ["typescript", "import", "unicorn", "oxc", "promise", "node"],
  categories: { correctness: "error" },
  options: { typeAware: true },
  rules: {
    eqeqeq: "error",
    // Control characters in expressions are deliberate here: they are what webhook URLs are refused for.
    "no-control-regex": "off",
    "import/no-cycle": "error",
    "max-lines": ["error", { max: 400 }],
    "max-lines-per-function": ["error", { max: 60 }],
    // Two positional parameters, then one object of options.
    "max-params": ["error", { max: 3 }],
    "no-var": "error",
    "prefer-const": "error",
    "typescript/consistent-type-imports": "error",
    "typescript/no-explicit-any": "error",
    "typescript/no-floating-promises": ["error", { allowForKnownSafeCalls: [TEST_CALLS] }],
    "typescript/no-misused-promises": "error",
    // Of a string it yields code points, which is what the contract counts in.
    "typescript/no-misused-spread": ["error", { allow: [{ from: "lib", name: "string" }] }],
    "typescript/no-non-null-assertion": "error",
    "typescript/no-require-imports": "error",
    "typescript/only-throw-error": "error",
    "typescript/switch-exhaustiveness-check": "error",
    "unicorn/filename-case": ["error", { case: "kebabCase" }],
    // Our parts are literals whose methods are closures; a class keeps its state in #private fields.
    "typescript/unbound-method": "off",
    // `new Array<string>(8)` is plain where the argument's type is.
    "unicorn/no-new-array": "off",
    // Tables spread literals to keep several entries on a line.
    "unicorn/no-useless-spread": "off",
    // The answers of an inbox are followed by what comes `then`, which is data and no function.
    "unicorn/no-thenable": "off",
    "unicorn/prefer-node-protocol": "error",
  },
  overrides: [
    {
      // A `describe` is one function, and a table of cases is as long as its cases.
      files: ["**/test/**"],
      rules: {
        "max-lines": ["error", { max: 800 }],
        "max-lines-per-function": ["error", { max: 400 }],
        "typescript/no-misused-spread": "off",
      },
    },
    {
      // A program that embeds the daemon may run it in a realm of its own, as Jest does.
      files: ["**/src/**"],
      rules: { "unicorn/no-instanceof-builtins": ["error", { strategy: "strict" }] },
    },
    {
      // Tests replace the globals of the process that the daemon runs in.
      files: ["**/src/**"],
      excludeFiles: ["**/src/domain/clock/timers.ts", ...OWN_GLOBALS],
      rules: {
        "no-restricted-globals": ["error", ...TIMERS.map((name) => ({ name, message: TAKE_THEM }))],
        "no-restricted-properties": [
          "error",
          ...TIME.map(([object, property]) => ({ object, property, message: TAKE_THEM })),
        ],
      },
    },
    ...ringOverrides(),
  ],
});
