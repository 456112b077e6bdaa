import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import type { PackedFile } from "../src/assets.ts";
import { buildSound } from "./bundle.ts";
import { ROOT } from "./manifest.ts";

/**
 * Builds the files for browsers into `dist/dashboard.json`: bundles the browser's code, names each file after its
 * content, and compresses it. Fails when the bundle is larger than it may be.
 */

const SOURCE = join(ROOT, "src", "dashboard");
const OUTPUT = join(ROOT, "dist", "dashboard.json");

/**
 * The largest sizes, minified: the page must appear immediately, also on a slow line. Each browser loads `script`;
 * operators also load `operator`, and a daemon for development adds `dev`.
 */
const BYTES_MAX = { script: 155_000, operator: 32_000, dev: 12_000, style: 25_000 };

// The oldest browsers that support light-dark() and nested styles, of spring 2024.
const TARGETS = ["chrome123", "firefox121", "safari17.5"];

const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** A file whose name depends on its content. */
interface Asset {
  readonly name: string;
  readonly contents: Uint8Array;
}

const { outputFiles = [], metafile } = await buildSound({
  entryPoints: { app: join(SOURCE, "main.tsx"), style: join(SOURCE, "style", "index.css") },
  outdir: "/",
  bundle: true,
  // A module that is imported by `import()` becomes its own script, and modules shared with the first script become one
  // that both load.
  splitting: true,
  // Browsers cache a file permanently, by its name.
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  write: false,
  metafile: true,
  minify: true,
  format: "esm",
  platform: "browser",
  target: TARGETS,
  // Children as arguments, not in an array of the props: 4 % less to load (measured).
  jsx: "transform",
  jsxFactory: "h",
  jsxFragment: "Fragment",
  inject: [join(SOURCE, "jsx.ts")],
  legalComments: "eof",
  // Not the settings of the folders, which set another way for JSX: to the compiler both are the same.
  tsconfigRaw: {},
});

const built = outputFiles.map(({ path, contents }): Asset => ({ name: basename(path), contents }));
const [app, screens, dev] = [scriptsOf("app"), scriptsOf("screens"), scriptsOf("dev")];
const style = built.filter(({ name }) => name.endsWith(".css"));
const sizes = {
  script: bytesOf(app),
  operator: bytesOf(screens.difference(app)),
  dev: bytesOf(dev.difference(app)),
  style: bytesOf(new Set(style)),
};
for (const name of ["script", "operator", "dev", "style"] as const) {
  const [bytes, max] = [sizes[name], BYTES_MAX[name]];
  if (bytes > max) throw new Error(`the dashboard's ${name} has ${bytes} bytes, over ${max}`);
}

const svg = readFileSync(join(SOURCE, "icon.svg"));
const iconHash = createHash("sha256").update(svg).digest("hex").slice(0, 12);
const icon: Asset = { name: `icon-${iconHash}.svg`, contents: svg };
// The page names the chunks that the first script imports: otherwise the browser would find them only after it has read
// that script.
const [script, ...shared] = [...app].map(pathOf);
const named = { script, style: style.map(pathOf)[0], icon: pathOf(icon) };
const page = readFileSync(join(SOURCE, "index.html"), "utf8")
  .replace(/.*\{\{shared\}\}.*\n/, (line) =>
    shared.map((path) => line.replace("{{shared}}", path)).join(""),
  )
  .replaceAll(
    /\{\{(script|style|icon)\}\}/g,
    (_, name: "script" | "style" | "icon") => named[name] ?? "",
  );
const html = { path: "/dashboard/", type: "text/html; charset=utf-8", isImmutable: false };
const files = [
  packed(html, Buffer.from(page)),
  ...[...built, icon].map((asset) => {
    const type = TYPES[extname(asset.name)] ?? "";
    return packed({ path: pathOf(asset), type, isImmutable: true }, asset.contents);
  }),
];
// A daemon in development reads the old file or the new one.
mkdirSync(join(ROOT, "dist"), { recursive: true });
writeFileSync(`${OUTPUT}.new`, JSON.stringify(files));
renameSync(`${OUTPUT}.new`, OUTPUT);
const [first, operator, development, css] = Object.values(sizes).map((bytes) =>
  (bytes / 1000).toFixed(1),
);
process.stdout.write(
  `dist/dashboard.json: ${first} KB of script, ${operator} KB more for operators, ${development} KB more for development, ${css} KB of style\n`,
);

/** The script that esbuild named so, then those that it needs before it can run. */
function scriptsOf(stem: string): Set<Asset> {
  const pattern = new RegExp(`^${stem}-[^-]+\\.js$`);
  const found = built.filter(({ name }) => pattern.test(name));
  const [one] = found;
  if (one === undefined || found.length > 1)
    throw new Error(`esbuild made ${found.length} files ${stem}-*.js`);
  // A set's iteration also visits what is added on the way.
  const all = new Set([one]);
  for (const { name } of all) {
    const [, output] =
      Object.entries(metafile?.outputs ?? {}).find(([path]) => basename(path) === name) ?? [];
    const needed = (output?.imports ?? []).filter(({ kind }) => kind === "import-statement");
    const names = new Set(needed.map(({ path }) => basename(path)));
    for (const each of built) if (names.has(each.name)) all.add(each);
  }
  return all;
}

function bytesOf(all: ReadonlySet<Asset>): number {
  return [...all].reduce((sum, { contents }) => sum + contents.length, 0);
}

function pathOf({ name }: Asset): string {
  return `/dashboard/assets/${name}`;
}

function packed(
  file: Pick<PackedFile, "path" | "type" | "isImmutable">,
  contents: Uint8Array,
): PackedFile {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
  return {
    ...file,
    body: Buffer.from(contents).toString("base64"),
    gzip: gzipSync(contents, { level: 9 }).toString("base64"),
    brotli: brotliCompressSync(contents, { params }).toString("base64"),
  };
}
