import { registerHooks } from "node:module";

/**
 * For `node --import`: `postbackd` is the sources, as it is for the type checker. What package.json
 * names is there only after a build, and of the sources as they were then.
 */
const INDEX = new URL("../../src/index.ts", import.meta.url).href;

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    nextResolve(specifier === "postbackd" ? INDEX : specifier, context),
});
