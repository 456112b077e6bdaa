import { RINGS } from "./rings.ts";
import type { Ring } from "./rings.ts";

/**
 * Turns the ring table into the linter's `no-restricted-imports`. That rule knows only what is refused,
 * by regular expressions without look-around, while the table says what is allowed; so the expressions
 * spell out "anything but these".
 */

/** A refusal: a specifier that matches `regex` is an error, and `message` says what would be right. */
export interface ImportPattern {
  regex: string;
  message: string;
}

/** An entry of `overrides` in an oxlint configuration. */
export interface RingOverride {
  files: string[];
  rules: { "no-restricted-imports": ["error", { patterns: ImportPattern[] }] };
}

// How deep the folders inside a ring may nest. A file below that is in no ring, which is an error.
const OWN_FOLDERS_MAX = 2;

const HOMELESS = {
  regex: "",
  message: "This file is in no ring: give it one in scripts/rings.ts.",
};

/**
 * The overrides for all of `src`. Their globs begin with two stars, because the linter takes them from
 * the configuration's folder on, where there is no `src`, and is silent when they match nothing.
 */
export function ringOverrides(rings: readonly Ring[] = RINGS): RingOverride[] {
  // A later override replaces the rule of an earlier one: the first is for files that have no other.
  const homeless = override("**/src/**", [HOMELESS]);
  return [homeless, ...rings.flatMap((ring) => overridesOf(ring, rings))];
}

function override(glob: string, patterns: ImportPattern[]): RingOverride {
  return { files: [glob], rules: { "no-restricted-imports": ["error", { patterns }] } };
}

function overridesOf(ring: Ring, rings: readonly Ring[]): RingOverride[] {
  const folder = folderOf(ring);
  const folders = rings.filter(({ files }) => files.endsWith("*")).map(folderOf);
  const inner = folders.filter((name) => name !== folder && name.startsWith(folder));
  if (folder === "") return [override(`**/src/${ring.files}`, patternsOf(ring, { depth: 0 }))];

  const refused = inner.filter((name) => !ring.imports.includes(`${name}*`));
  const innerPatterns = refused.map((name) => ({
    regex: `^\\./${name.slice(folder.length)}`,
    message: messageOf(ring),
  }));
  const flat = override(`**/src/${ring.files}`, [
    ...patternsOf(ring, { depth: 0 }),
    ...innerPatterns,
  ]);
  if (inner.length > 0) return [flat];

  // The meaning of `../` depends on the depth of a file, hence one override for each depth.
  const depths = Array.from({ length: OWN_FOLDERS_MAX }, (_, index) => index + 1);
  const nested = depths.map((depth) =>
    override(`**/src/${folder}${"*/".repeat(depth)}*`, patternsOf(ring, { depth })),
  );
  return [flat, ...nested];
}

/** `net/*` has the folder `net/`; `main.ts` has none of its own. */
function folderOf({ files }: Ring): string {
  return files.slice(0, files.lastIndexOf("/") + 1);
}

/** The refusals for a file that is `depth` folders below the ring's own. */
function patternsOf(ring: Ring, { depth }: { readonly depth: number }): ImportPattern[] {
  const folders = folderOf(ring).split("/").slice(0, -1);
  const levels = folders.length + depth;
  const outside = `^(?:\\.\\./){${levels + 1}}`;
  const regexes = [outside, NOT_PLAIN, `^${anythingBut(bareSpecifiers(ring), ".")}$`];

  for (let up = depth; up <= levels; up++) {
    // The folder of `src` that this many `../` lead to.
    const landing = folders
      .slice(0, levels - up)
      .map((name) => `${name}/`)
      .join("");
    const targets = [ring.files, ...ring.imports].filter((target) => target.startsWith(landing));
    const others = anythingBut(
      targets.map((target) => target.slice(landing.length)),
      ".",
    );
    if (others !== null) regexes.push(`^${up === 0 ? "\\./" : "\\.\\./".repeat(up)}${others}$`);
  }
  return regexes.map((regex) => ({ regex, message: messageOf(ring) }));
}

// A specifier that goes down and up again, or says `./` without need, would slip by the expressions.
const NOT_PLAIN = "^\\./\\.|/\\./|[^.]/\\.\\./";

function bareSpecifiers({ packages, node }: Ring): string[] {
  const names = [...packages, ...node.map((name) => `node:${name}`)];
  return names.flatMap((name) => [name, `${name}/*`]);
}

/**
 * An expression for every text that is not one of `words`, where a `*` at a word's end matches any ending; null if no
 * such text exists. Text that begins with `except` does not match either.
 */
function anythingBut(words: readonly string[], except = ""): string | null {
  if (words.includes("*")) return null;

  const heads = [...new Set(words.map((word) => word.charAt(0)))].filter((head) => head !== "");
  const branches = heads.flatMap((head) => {
    const tails = words.filter((word) => word.startsWith(head)).map((word) => word.slice(1));
    const others = anythingBut(tails);
    return others === null ? [] : [`${quoted(head)}${others}`];
  });
  const known = [...heads, except].map(quoted).join("");
  branches.push(known === "" ? ".+" : `[^${known}].*`);
  // The text ends here, and no word does.
  if (!words.includes("")) branches.push("$");
  return `(?:${branches.join("|")})`;
}

function quoted(character: string): string {
  return /^[\w/:@]?$/.test(character) ? character : `\\${character}`;
}

function messageOf({ files, imports, packages, node }: Ring): string {
  const sources = imports.length > 0 ? imports.join(", ") : "nothing else of src";
  const modules = [...packages, ...node.map((name) => `node:${name}`)];
  const rest = modules.length > 0 ? modules.join(", ") : "no package and no module of Node";
  return `src/${files} may import ${sources}; ${rest}. The table is scripts/rings.ts.`;
}
