import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import { build, type OutputFile } from "esbuild";

/** The absolute paths of the sources and of the files. */
export interface DashboardBuild {
  readonly root: string;
  readonly outFolder: string;
}

/** The sizes that a browser has to read, minified. */
export interface DashboardSize {
  readonly scriptBytes: number;
  readonly styleBytes: number;
}

// The largest size, minified: the page must be there at once, also on a bad line.
const SCRIPT_BYTES_MAX = 160_000;
const STYLE_BYTES_MAX = 25_000;

// The oldest browsers that know light-dark() and nested styles: those of spring 2024.
const TARGETS = ["chrome123", "firefox121", "safari17.5"];

/** A file as `files.json` lists it; `file`, `gzip` and `brotli` are names in the folder. */
interface ListedFile {
  /** As browsers ask for it. */
  readonly path: string;
  readonly type: string;
  readonly file: string;
  readonly gzip: string | null;
  readonly brotli: string | null;
  /** Its name depends on its content. */
  readonly isImmutable: boolean;
}

/**
 * Bundles the browser's code, names each file after what is in it, compresses it, and lists all in `files.json`.
 * Replaces the folder as a whole. Throws when the bundle is larger than it may be.
 */
export async function buildDashboard({ root, outFolder }: DashboardBuild): Promise<DashboardSize> {
  const source = join(root, "src", "dashboard");
  const [script, style] = await bundle(source);
  const size = { scriptBytes: script.contents.length, styleBytes: style.contents.length };
  checkSize(size);

  const work = `${outFolder}.new`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, "assets"), { recursive: true });
  const assets = {
    script: writeAsset(work, { name: "app", extension: "js", contents: script.contents }),
    style: writeAsset(work, { name: "style", extension: "css", contents: style.contents }),
    icon: writeAsset(work, {
      name: "icon",
      extension: "svg",
      contents: readFileSync(join(source, "icon.svg")),
    }),
  };
  const page = readFileSync(join(source, "index.html"), "utf8").replaceAll(
    /\{\{(script|style|icon)\}\}/g,
    (_, name: keyof typeof assets) => assets[name].path,
  );
  const index = writeFile(work, {
    path: "/dashboard/",
    type: TYPES.html,
    file: "index.html",
    isImmutable: false,
    contents: Buffer.from(page),
  });
  writeFileSync(
    join(work, "files.json"),
    JSON.stringify([index, ...Object.values(assets)], null, 2),
  );
  replaceFolder(outFolder, work);
  return size;
}

async function bundle(source: string): Promise<readonly [OutputFile, OutputFile]> {
  const { outputFiles, warnings } = await build({
    entryPoints: {
      app: join(source, "main.tsx"),
      style: join(source, "style", "index.css"),
    },
    outdir: "/",
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    platform: "browser",
    target: TARGETS,
    // Children as arguments, not in an array of the props: 4 % less to load (measured).
    jsx: "transform",
    jsxFactory: "h",
    jsxFragment: "Fragment",
    inject: [join(source, "jsx.ts")],
    legalComments: "eof",
    // Not those of the folders, which say another way for JSX: to the compiler both are the same.
    tsconfigRaw: {},
    logLevel: "warning",
  });
  if (warnings.length > 0) throw new Error(`esbuild warned ${warnings.length} times, see above`);
  const script = outputFiles.find(({ path }) => path.endsWith(".js"));
  const style = outputFiles.find(({ path }) => path.endsWith(".css"));
  if (script === undefined || style === undefined)
    throw new Error("esbuild made no script or style");
  return [script, style];
}

function checkSize({ scriptBytes, styleBytes }: DashboardSize): void {
  if (scriptBytes > SCRIPT_BYTES_MAX) {
    throw new Error(`the dashboard's script has ${scriptBytes} bytes, over ${SCRIPT_BYTES_MAX}`);
  }
  if (styleBytes > STYLE_BYTES_MAX) {
    throw new Error(`the dashboard's style has ${styleBytes} bytes, over ${STYLE_BYTES_MAX}`);
  }
}

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
} as const;

interface Asset {
  readonly name: string;
  readonly extension: keyof typeof TYPES;
  readonly contents: Uint8Array;
}

function writeAsset(folder: string, { name, extension, contents }: Asset): ListedFile {
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  const file = `assets/${name}-${hash}.${extension}`;
  const path = `/dashboard/${file}`;
  return writeFile(folder, { path, type: TYPES[extension], file, isImmutable: true, contents });
}

function writeFile(
  folder: string,
  { contents, ...listed }: Omit<ListedFile, "gzip" | "brotli"> & { readonly contents: Uint8Array },
): ListedFile {
  const gzip = `${listed.file}.gz`;
  const brotli = `${listed.file}.br`;
  writeFileSync(join(folder, listed.file), contents);
  writeFileSync(join(folder, gzip), gzipSync(contents, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
  writeFileSync(join(folder, brotli), brotliCompressSync(contents, { params }));
  return { ...listed, gzip, brotli };
}

// A program that reads the old one at this moment finds none, and says so.
function replaceFolder(folder: string, work: string): void {
  mkdirSync(dirname(folder), { recursive: true });
  rmSync(folder, { recursive: true, force: true });
  renameSync(work, folder);
}
