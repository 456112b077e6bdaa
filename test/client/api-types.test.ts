import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { apiTypes } from "../../scripts/package-types.ts";
import { temporaryFolder } from "../helpers/program.ts";

const SAME = `
import type * as sources from ${JSON.stringify(join(ROOT, "src", "client", "api.ts"))};
import type * as written from "./written.ts";

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Different<A, B> = {
  [Key in keyof A | keyof B]: Key extends keyof A & keyof B
    ? Same<A[Key], B[Key]> extends true ? never : Key
    : Key;
}[keyof A | keyof B];

export const none: [
  Different<sources.Answers, written.Answers>,
  Different<sources.Queries, written.Queries>,
  Different<sources.Bodies, written.Bodies>,
] extends [never, never, never] ? true : false = true;
export const codes: Same<sources.Code, written.Code> = true;
`;

test("the package's types of the API are those of the sources", (t) => {
  const folder = temporaryFolder(t);
  const check = (types: string): string => {
    writeFileSync(join(folder, "written.ts"), types);
    writeFileSync(join(folder, "same.ts"), SAME);
    const types_ = join(ROOT, "node_modules", "@types");
    const args = [
      ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"],
      ...["--allowImportingTsExtensions", "--typeRoots", types_, "--types", "node", "same.ts"],
    ];
    const tsc = join(ROOT, "node_modules", ".bin", "tsc");
    return spawnSync(process.execPath, [tsc, ...args], { cwd: folder, encoding: "utf8" }).stdout;
  };

  assert.equal(check(apiTypes()), "");
  const wrong = apiTypes().replace("readonly key_limit: number;", "readonly key_limit: string;");
  assert.match(check(wrong), /same\.ts\(\d+,\d+\): error TS2322/);
});
