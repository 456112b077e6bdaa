import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { ROOT, version } from "../manifest.ts";
import { type PackageFile, type Packing, packFiles } from "./staging.ts";

/** What goes into npm's package, beside what `npm run build` made. */
export interface NpmOrder extends Packing {
  readonly notices: Buffer;
}

const MANIFEST = z.looseObject({
  files: z.array(z.string()),
  bin: z.object({ postbackd: z.string() }),
});

const NOTICES = "THIRD-PARTY-NOTICES";

/** What of package.json is for work on the project: whoever installs the package has nothing to install beside it. */
const NOT_PUBLISHED = ["private", "scripts", "dependencies", "devDependencies", "allowScripts"];

/**
 * Makes `postbackd-VERSION.tgz`, for `npm install` and `npm publish`; answers its path. Not by `npm pack`: its bytes
 * would be those of the npm that is at hand.
 */
export async function makeNpmPackage(order: NpmOrder): Promise<string> {
  const archive = join(order.folder, `postbackd-${version}.tgz`);
  // npm takes whatever is in the one folder of it.
  await packFiles(npmFiles(order), { ...order, archive, root: "package" });
  return archive;
}

function npmFiles({ notices }: NpmOrder): readonly PackageFile[] {
  const all: object = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const { files, bin } = MANIFEST.parse(all);
  const kept = Object.entries(all).filter(([name]) => !NOT_PUBLISHED.includes(name));
  const published = { ...Object.fromEntries(kept), files: [...files, NOTICES] };
  return [
    { path: "package.json", content: Buffer.from(`${JSON.stringify(published, null, 2)}\n`) },
    { path: NOTICES, content: notices },
    ...["README.md", "LICENSE", ...files.flatMap(filesAt)].map((path) => {
      const isExecutable = path === bin.postbackd;
      return { path, content: { file: join(ROOT, path) }, isExecutable };
    }),
  ];
}

/** The file at this place, or all below the folder at it. */
function filesAt(path: string): readonly string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path)).flatMap((name) => filesAt(join(path, name)));
}
