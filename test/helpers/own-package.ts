import { registerHooks } from "node:module";

/**
 * For `node --import`: `postbackd` is the sources, as it is for the type checker. What package.json
 * names is there only after a build, and of the sources as they were then.
 */
const SOURCES: Readonly<Record<string, string>> = {
  postbackd: new URL("../../src/index.ts", import.meta.url).href,
  "postbackd/worker": new URL("../../src/worker.ts", import.meta.url).href,
};

const ASSETS = new URL("../../src/assets.ts", import.meta.url).href;

/** Stands in for the sources' assets where the bundle has been made whose threads it names. */
const TEST_ASSETS = new URL("../../scripts/test-assets.ts", import.meta.url).href;

const isBundled = process.env["POSTBACKD_TEST_PROGRAM"] !== undefined;

registerHooks({
  resolve: (specifier, context, nextResolve) => {
    const found = nextResolve(SOURCES[specifier] ?? specifier, context);
    const isReplaced = isBundled && found.url === ASSETS && context.parentURL !== TEST_ASSETS;
    return isReplaced ? { ...found, url: TEST_ASSETS } : found;
  },
});
