import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./manifest.ts";

/**
 * Counts sentences that a reader has to read twice, by the rules of CONTRIBUTING.md. A hit is a place to look at. `npm
 * run lint` fails if a kind of text has more hits than {@link ALLOWED}: lower the figures with the texts. With `--show
 * KIND` it lists the hits.
 */

type Kind = "document" | "comment" | "message" | "test name";

const ALLOWED: Readonly<Record<Kind, number>> = {
  document: 5,
  comment: 193,
  message: 37,
  "test name": 8,
};

// Case matters unless a rule has the flag.
const RULES: Readonly<Record<string, RegExp>> = {
  "a clause instead of a noun": /^(What|Who|Whoever|Whose|Whatever|Of what|Of whom)\b(?!.*\?$)/,
  "a person instead of an actor": /\b(nobody|somebody|anybody|everybody|whoever|whatever)\b/i,
  "a program that talks": /\b(tells?|told|telling|hears?|heard)\b/i,
  "an answer":
    /\banswer(s|ed|ing)?\b (null|undefined|true|false|the|a|an|whether|how|what|with|by)\b|^Answers?\b/,
  "a negated noun": /\b(is|are|was|were|be) (none|no (?!longer|more|less)[a-z]+)\b/,
  "where instead of if":
    /^Where (?!to\b|from\b)[^?]*$|[,;:] where (there|it|they|nothing) (is|are)\b/,
  "a false friend": /\b(anew|mends?|mended|for good|as a whole|so many a|at once|all the same)\b/,
  "a pronoun without a noun": /\b(that of|those of|the one that|one that is|of these|of those)\b/,
  "more than 30 words": /^(\S+ ){30}/,
};

const COMMENT = /^[ \t]*\/\*\*?(.*?)\*\/|((?:^[ \t]*\/\/[^\n]*\n?)+)/gms;
const TEST_NAME = /\b(?:test|it|describe|suite)(?:\.\w+)?\(\s*(?:"([^"\n]+)"|`([^`\n]+)`)/g;
const TEXT = /"([^"\n]{16,})"|`([^`\n]{16,})`/g;
const SQL = /\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE)\b/;

interface Hit {
  readonly kind: Kind;
  readonly file: string;
  readonly rule: string;
  readonly sentence: string;
}

const [option, shown] = process.argv.slice(2);
const hits = trackedFiles().flatMap((file) => hitsIn(file));
if (option === "--show") {
  for (const { kind, file, rule, sentence } of hits) {
    if (shown === undefined || kind === shown) console.log(`${file}: ${rule}: ${sentence}`);
  }
}
for (const kind of Object.keys(ALLOWED) as Kind[]) {
  const count = hits.filter((hit) => hit.kind === kind).length;
  if (count <= ALLOWED[kind]) continue;
  const remedy = `rewrite a sentence ('tsx scripts/prose.ts --show "${kind}"' lists them)`;
  console.error(`${kind}: ${count} hits, and scripts/prose.ts allows ${ALLOWED[kind]}: ${remedy}.`);
  process.exitCode = 1;
}

function trackedFiles(): readonly string[] {
  const { stdout } = spawnSync("git", ["ls-files", "*.ts", "*.tsx", "*.md"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return stdout
    .split("\n")
    .filter((file) => file !== "" && !file.includes("/fixtures/") && existsSync(join(ROOT, file)));
}

function hitsIn(file: string): readonly Hit[] {
  return textsOf(file, readFileSync(join(ROOT, file), "utf8")).flatMap(([kind, text]) =>
    sentencesOf(text).flatMap((sentence) => {
      const rule = Object.entries(RULES).find(([, pattern]) => pattern.test(sentence))?.[0];
      return rule === undefined ? [] : [{ kind, file, rule, sentence: sentence.slice(0, 160) }];
    }),
  );
}

function textsOf(file: string, text: string): readonly (readonly [Kind, string])[] {
  if (file.endsWith(".md")) {
    const prose = text.replaceAll(/^```.*?^```/gms, "");
    return prose
      .split(/\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.|#+|>|\|)\s)|\|/)
      .map((part) => ["document", part]);
  }
  const comments = Array.from(text.matchAll(COMMENT), ([, block = "", line = ""]) =>
    `${block}${line}`.replaceAll(/^[ \t]*(?:\*|\/\/)[ \t]?/gm, ""),
  ).flatMap((comment) => comment.split(/\n\s*\n|\n\s*(?=@|[-*] |\d+\. )/));
  const isTest = file.startsWith("test/");
  const literals = Array.from(
    text.matchAll(isTest ? TEST_NAME : TEXT),
    (match) => match[1] ?? match[2] ?? "",
  );
  const sentences = isTest
    ? literals
    : literals.filter((each) => each.split(" ").length > 3 && !SQL.test(each));
  return [
    ...comments.map((comment) => ["comment", comment] as const),
    ...sentences.map((each) => [isTest ? "test name" : "message", each] as const),
  ];
}

/** The sentences of a text with at least three words; code and links count as one word. */
function sentencesOf(text: string): readonly string[] {
  return text
    .replaceAll(/\s+/g, " ")
    .replaceAll(/`[^`]*`|\{@\w+ [^}]*\}|https?:\/\/\S+|\$\{[^}]*\}/g, "X")
    .split(/(?<=[.!?])\s+(?=[A-Z"(])/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence.split(" ").length >= 3);
}
