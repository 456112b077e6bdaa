import { registerHooks } from "node:module";

/** For `node --import`: resolves `postbackd` to the sources instead of the last build. */
const SOURCES: Readonly<Record<string, string>> = {
  postbackd: new URL("../../src/index.ts", import.meta.url).href,
  "postbackd/worker": new URL("../../src/worker.ts", import.meta.url).href,
};

const ASSETS = new URL("../../src/assets.ts", import.meta.url).href;

/** Replaces the sources' assets by the threads of the bundle. */
const TEST_ASSETS = new URL("../../scripts/test-assets.ts", import.meta.url).href;

const isBundled = process.env["POSTBACKD_TEST_PROGRAM"] !== undefined;

registerHooks({
  resolve: (specifier, context, nextResolve) => {
    const found = nextResolve(SOURCES[specifier] ?? specifier, context);
    const isReplaced = isBundled && found.url === ASSETS && context.parentURL !== TEST_ASSETS;
    return isReplaced ? { ...found, url: TEST_ASSETS } : found;
  },
});
