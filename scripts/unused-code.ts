import { sep } from "node:path";

import type { Plugin } from "esbuild";

/** The names that are imported from a module; none where `require` gives what is used. */
type Stubs = Readonly<Record<string, readonly string[]>>;

/**
 * What packages of ours import for things that the program never asks of them, by the package that imports it. listhen
 * could start a tunnel (it would download cloudflared), make certificates, print a QR code, fill the clipboard, open a
 * browser and serve web sockets; consola could ask questions, pino send its log to threads.
 */
const UNUSED: Readonly<Record<string, Stubs>> = {
  listhen: {
    untun: ["startTunnel"],
    "node-forge": ["default"],
    uqr: ["renderUnicodeCompact"],
    tinyclip: ["writeText"],
    "../chunks/xdg-open.mjs": ["xdgOpenScript"],
    "crossws/adapters/node": ["default"],
  },
  consola: { "./chunks/prompt.mjs": ["prompt"] },
  pino: { "thread-stream": [] },
};

const NAMESPACE = "unused";

/**
 * Leaves code out of a bundle that is never run: something that throws stands in for it. A module of the list that is
 * not imported any more fails the build, so that the list stays true.
 */
export function withoutUnusedCode(): Plugin {
  const left = new Set(Object.values(UNUSED).flatMap((stubs) => Object.keys(stubs)));
  return {
    name: "unused-code",
    setup(build) {
      build.onResolve({ filter: /^[^/]/ }, ({ path, importer }) => {
        const names = UNUSED[packageOf(importer)]?.[path];
        if (names === undefined) return undefined;
        left.delete(path);
        return { path, namespace: NAMESPACE, pluginData: names };
      });
      build.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path, pluginData }) => {
        // What the resolution above gave.
        return { contents: stubOf(path, pluginData as readonly string[]) };
      });
      build.onEnd(() => {
        const text = `nothing imports ${[...left].join(", ")}: take it off the list in unused-code.ts`;
        return left.size === 0 ? {} : { errors: [{ text }] };
      });
    },
  };
}

/** The package that a file belongs to; empty for a file of the project's own. */
function packageOf(file: string): string {
  const [, ...parts] = file.split(`${sep}node_modules${sep}`);
  const [first = "", second = ""] = parts.at(-1)?.split(sep) ?? [];
  return first.startsWith("@") ? `${first}/${second}` : first;
}

function stubOf(path: string, names: readonly string[]): string {
  const message = `${path} is not in the executable: nothing was meant to use it`;
  const stub = "new Proxy(refuse, { get: refuse })";
  const lines = names.map((name) =>
    name === "default" ? `export default ${stub};` : `export const ${name} = ${stub};`,
  );
  if (names.length === 0) lines.push(`module.exports = ${stub};`);
  // To call it, to construct it and to look at what it has throws alike.
  lines.unshift(`function refuse() { throw new Error(${JSON.stringify(message)}); }`);
  return lines.join("\n");
}
