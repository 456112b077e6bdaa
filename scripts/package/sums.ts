import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

/** Writes `SHA256SUMS` into the folder of the files, for `sha256sum --check`. */
export function writeSums(folder: string, files: readonly string[]): void {
  const lines = files.toSorted().map((file) => {
    const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
    return `${sum}  ${basename(file)}\n`;
  });
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
}
