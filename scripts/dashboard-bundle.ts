import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import { build } from "esbuild";

import { ROOT } from "./manifest.ts";

/**
 * Builds what browsers are given into `dist/dashboard`, where the program reads it in development: bundles the
 * browser's code, names each file after what is in it, compresses it, and lists all in `files.json`. Replaces the
 * folder as a whole. Fails when the bundle is larger than it may be.
 */

const SOURCE = join(ROOT, "src", "dashboard");
const FOLDER = join(ROOT, "dist", "dashboard");
const WORK = `${FOLDER}.new`;

/**
 * The largest sizes, minified: the page must be there at once, also on a bad line. `script` is what everybody loads,
 * `operator` what an operator loads beside it, `dev` what everybody does at a daemon for development.
 */
const BYTES_MAX = { script: 155_000, operator: 32_000, dev: 12_000, style: 25_000 };

// The oldest browsers that know light-dark() and nested styles: those of spring 2024.
const TARGETS = ["chrome123", "firefox121", "safari17.5"];

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
} as const;

/** A file as `files.json` lists it; `file`, `gzip` and `brotli` are names in the folder. */
interface ListedFile {
  /** As browsers ask for it. */
  readonly path: string;
  readonly type: string;
  readonly file: string;
  readonly gzip: string;
  readonly brotli: string;
  /** Its name depends on its content. */
  readonly isImmutable: boolean;
}

const { outputFiles, metafile, warnings } = await build({
  entryPoints: { app: join(SOURCE, "main.tsx"), style: join(SOURCE, "style", "index.css") },
  outdir: "/",
  bundle: true,
  // What is imported by `import()` is a script of its own, and what it shares with the first is one that both load.
  splitting: true,
  // Browsers keep a file for good, by its name.
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
  // Not those of the folders, which say another way for JSX: to the compiler both are the same.
  tsconfigRaw: {},
  logLevel: "warning",
});
if (warnings.length > 0) throw new Error(`esbuild warned ${warnings.length} times, see above`);

const app = bundled("app", "js");
// Several scripts need what is in these, so the page names those of the first: else the browser would find them only once
// it has read that one.
const chunks = outputFiles.filter(({ path }) => basename(path).startsWith("chunk-")).map(toAsset);
const ofApp = chunksOf(app);
const screens = bundled("screens", "js");
const dev = bundled("dev", "js");
const style = bundled("style", "css");
const sizes = {
  script: bytesOf([app, ...ofApp]),
  operator: bytesBeside(screens),
  dev: bytesBeside(dev),
  style: style.contents.length,
};
for (const name of ["script", "operator", "dev", "style"] as const) {
  const [bytes, max] = [sizes[name], BYTES_MAX[name]];
  if (bytes > max) throw new Error(`the dashboard's ${name} has ${bytes} bytes, over ${max}`);
}

rmSync(WORK, { recursive: true, force: true });
mkdirSync(join(WORK, "assets"), { recursive: true });
const icon = readFileSync(join(SOURCE, "icon.svg"));
const assets = {
  script: writeAsset(app),
  operator: writeAsset(screens),
  dev: writeAsset(dev),
  style: writeAsset(style),
  icon: writeAsset({ name: `icon-${shortHash(icon)}.svg`, extension: "svg", contents: icon }),
};
const written = chunks.map((chunk) => ({ chunk, file: writeAsset(chunk) }));
const shared = written.filter(({ chunk }) => ofApp.includes(chunk)).map(({ file }) => file.path);
const page = readFileSync(join(SOURCE, "index.html"), "utf8")
  .replace(/.*\{\{shared\}\}.*\n/, (line) =>
    shared.map((path) => line.replace("{{shared}}", path)).join(""),
  )
  .replaceAll(
    /\{\{(script|style|icon)\}\}/g,
    (_, name: "script" | "style" | "icon") => assets[name].path,
  );
const index = { path: "/dashboard/", type: TYPES.html, file: "index.html", isImmutable: false };
const files = [
  writeFile(index, Buffer.from(page)),
  ...Object.values(assets),
  ...written.map(({ file }) => file),
];
writeFileSync(join(WORK, "files.json"), JSON.stringify(files, null, 2));

// A program that reads the old one at this moment finds none, and says so.
mkdirSync(dirname(FOLDER), { recursive: true });
rmSync(FOLDER, { recursive: true, force: true });
renameSync(WORK, FOLDER);
const [script, operator, development, css] = Object.values(sizes).map((bytes) =>
  (bytes / 1000).toFixed(1),
);
process.stdout.write(
  `dist/dashboard: ${script} KB of script, ${operator} KB more for operators, ${development} KB more for development, ${css} KB of style\n`,
);

/** The one file that esbuild named so. */
function bundled(stem: string, extension: "js" | "css"): Asset {
  const found = outputFiles.filter(
    ({ path }) => basename(path).startsWith(`${stem}-`) && path.endsWith(`.${extension}`),
  );
  const [file] = found;
  if (file === undefined || found.length > 1) {
    throw new Error(`esbuild made ${found.length} files ${stem}-*.${extension}`);
  }
  return { ...toAsset(file), extension };
}

function toAsset({ path, contents }: (typeof outputFiles)[number]): Asset {
  return { name: basename(path), extension: "js", contents };
}

/** The scripts that one needs before it can run, those that they need included. */
function chunksOf({ name }: Asset): readonly Asset[] {
  const [, output] =
    Object.entries(metafile.outputs).find(([path]) => basename(path) === name) ?? [];
  const needed = (output?.imports ?? []).filter(({ kind }) => kind === "import-statement");
  const own = chunks.filter((each) => needed.some(({ path }) => basename(path) === each.name));
  return [...new Set([...own, ...own.flatMap(chunksOf)])];
}

/** The bytes of a script, and of what it needs beside that of the first. */
function bytesBeside(asset: Asset): number {
  return bytesOf([asset, ...chunksOf(asset).filter((each) => !ofApp.includes(each))]);
}

function bytesOf(all: readonly Asset[]): number {
  return all.reduce((sum, { contents }) => sum + contents.length, 0);
}

function shortHash(contents: Uint8Array): string {
  return createHash("sha256").update(contents).digest("hex").slice(0, 12);
}

interface Asset {
  /** It depends on the content. */
  readonly name: string;
  readonly extension: keyof typeof TYPES;
  readonly contents: Uint8Array;
}

function writeAsset({ name, extension, contents }: Asset): ListedFile {
  const file = `assets/${name}`;
  const listed = { path: `/dashboard/${file}`, type: TYPES[extension], file, isImmutable: true };
  return writeFile(listed, contents);
}

function writeFile(listed: Omit<ListedFile, "gzip" | "brotli">, contents: Uint8Array): ListedFile {
  const gzip = `${listed.file}.gz`;
  const brotli = `${listed.file}.br`;
  writeFileSync(join(WORK, listed.file), contents);
  writeFileSync(join(WORK, gzip), gzipSync(contents, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
  writeFileSync(join(WORK, brotli), brotliCompressSync(contents, { params }));
  return { ...listed, gzip, brotli };
}
