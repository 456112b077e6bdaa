import { bodyFileOf, saveBodyCommand, type BodySource } from "./curl.ts";

/** Makes programs that check one signature, ready to run. */

export type SnippetLanguage = "TypeScript" | "Python" | "Go" | "PHP";

/** The facts that a snippet checks. */
export interface SnippetFacts extends BodySource {
  /** The signed text, a body or a URL; null where the body is too large to be at hand. */
  readonly message: string | null;
  readonly kind: "postback" | "pingback";
  /** As in `X-Signature`. */
  readonly signature: string;
}

/** A program in one language. */
export interface Snippet {
  readonly file: string;
  /** The command that runs it. */
  readonly command: string;
  readonly text: string;
}

/** The languages, in the order of their tabs. */
export const SNIPPET_LANGUAGES: readonly SnippetLanguage[] = ["TypeScript", "Python", "Go", "PHP"];

/** How many bytes of a message fit in the program; a longer one is read from a file. */
export const INLINE_BYTES_MAX = 4096;

/**
 * A program that checks whether the signature is genuine. It takes the secret from `WEBHOOK_SECRET`, prints `genuine`
 * and ends with 0, or says that it is not and ends with 1.
 */
export function verifySnippet(language: SnippetLanguage, facts: SnippetFacts): Snippet {
  const { write, extension, run, comment } = LANGUAGES[language];
  const file = `verify.${extension}`;
  const isInline = facts.message !== null && byteLength(facts.message) <= INLINE_BYTES_MAX;
  const message = isInline ? facts.message : null;
  const lines = isInline ? [] : saveLines(facts, comment);
  return {
    file,
    command: `WEBHOOK_SECRET=whsec_… ${run} ${file}`,
    text: write({
      message: message === null ? null : quoted(language, message),
      bodyFile: quoted(language, bodyFileOf(facts)),
      signature: quoted(language, facts.signature),
      head: lines.map((line) => `${line}\n`).join(""),
      what: facts.kind === "postback" ? "body" : "url",
    }),
  };
}

/** A text as a literal of the language, in double quotes. Invisible characters are written as escapes. */
export function quoted(language: SnippetLanguage, text: string): string {
  const { unicode, extra } = LANGUAGES[language];
  const escaped = text
    .toWellFormed()
    .replaceAll(
      UNSEEN,
      (character) => SHORT_ESCAPES.get(character) ?? unicode(character.codePointAt(0) ?? 0),
    );
  return `"${extra(escaped)}"`;
}

// Control and format characters (a right-to-left mark reverses a line of code), line separators, and code points
// without a character.
const UNSEEN = /["\\]|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;

const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\\", "\\\\"],
  ['"', '\\"'],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);

/** The literals of a program, and the text before them. */
interface Parts {
  readonly message: string | null;
  readonly bodyFile: string;
  readonly signature: string;
  readonly head: string;
  /** The variable's name. */
  readonly what: string;
}

interface LanguageRow {
  readonly extension: string;
  readonly run: string;
  readonly comment: string;
  readonly unicode: (codePoint: number) => string;
  /** Escapes other characters with a meaning in the language's literals. */
  readonly extra: (escaped: string) => string;
  readonly write: (parts: Parts) => string;
}

const LANGUAGES: Readonly<Record<SnippetLanguage, LanguageRow>> = {
  TypeScript: {
    extension: "ts",
    run: "node",
    comment: "//",
    write: typescript,
    unicode: (codePoint) => `\\u{${hex(codePoint, 4)}}`,
    extra: (escaped) => escaped,
  },
  Python: {
    extension: "py",
    run: "python3",
    comment: "#",
    write: python,
    unicode: shortOrLong,
    extra: (escaped) => escaped,
  },
  Go: {
    extension: "go",
    run: "go run",
    comment: "//",
    write: go,
    unicode: shortOrLong,
    extra: (escaped) => escaped,
  },
  PHP: {
    extension: "php",
    run: "php",
    comment: "//",
    write: php,
    unicode: (codePoint) => `\\u{${hex(codePoint, 4)}}`,
    // It would begin a variable.
    extra: (escaped) => escaped.replaceAll("$", String.raw`\$`),
  },
};

function shortOrLong(codePoint: number): string {
  return codePoint > 0xffff ? `\\U${hex(codePoint, 8)}` : `\\u${hex(codePoint, 4)}`;
}

function hex(codePoint: number, digits: number): string {
  return codePoint.toString(16).padStart(digits, "0");
}

function saveLines(facts: SnippetFacts, comment: string): readonly string[] {
  return [
    `${comment} The body is long: save it first, in this folder.`,
    `${comment} ${saveBodyCommand(facts)}`,
  ];
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function typescript({ message, bodyFile, signature, head, what }: Parts): string {
  const read = message === null ? '\nimport { readFileSync } from "node:fs";' : "";
  return `${head}import { createHmac, timingSafeEqual } from "node:crypto";${read}

const ${what} = ${message ?? `readFileSync(${bodyFile})`};
const signature = ${signature};

const secret = process.env["WEBHOOK_SECRET"];
if (!secret) throw new Error("Set WEBHOOK_SECRET to the webhook secret, whsec_…");
const expected = "sha256=" + createHmac("sha256", secret).update(${what}).digest("hex");
const isGenuine =
  expected.length === signature.length &&
  timingSafeEqual(Buffer.from(expected), Buffer.from(signature));
console.log(isGenuine ? "genuine" : "NOT genuine: " + expected + " is expected");
process.exitCode = isGenuine ? 0 : 1;
`;
}

function python({ message, bodyFile, signature, head, what }: Parts): string {
  const bytes = message === null ? `open(${bodyFile}, "rb").read()` : `${message}.encode("utf-8")`;
  return `${head}import hashlib, hmac, os, sys

${what} = ${bytes}
signature = ${signature}

secret = os.environ.get("WEBHOOK_SECRET")
if not secret:
    sys.exit("Set WEBHOOK_SECRET to the webhook secret, whsec_...")
expected = "sha256=" + hmac.new(secret.encode("utf-8"), ${what}, hashlib.sha256).hexdigest()
if not hmac.compare_digest(expected, signature):
    sys.exit("NOT genuine: " + expected + " is expected")
print("genuine")
`;
}

function go({ message, bodyFile, signature, head, what }: Parts): string {
  const bytes =
    message === null
      ? `${what}, err := os.ReadFile(${bodyFile})
	if err != nil {
		log.Fatal(err)
	}`
      : `${what} := []byte(${message})`;
  return `${head}package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"os"
)

func main() {
	${bytes}
	signature := ${signature}

	secret := os.Getenv("WEBHOOK_SECRET")
	if secret == "" {
		log.Fatal("Set WEBHOOK_SECRET to the webhook secret, whsec_…")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(${what})
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(expected), []byte(signature)) {
		log.Fatal("NOT genuine: ", expected, " is expected")
	}
	fmt.Println("genuine")
}
`;
}

function php({ message, bodyFile, signature, head, what }: Parts): string {
  return `<?php
${head}$${what} = ${message ?? `file_get_contents(${bodyFile})`};
$signature = ${signature};

$secret = getenv('WEBHOOK_SECRET');
if (!$secret) {
    fwrite(STDERR, "Set WEBHOOK_SECRET to the webhook secret, whsec_…\\n");
    exit(1);
}
$expected = 'sha256=' . hash_hmac('sha256', $${what}, $secret);
if (!hash_equals($expected, $signature)) {
    fwrite(STDERR, "NOT genuine: $expected is expected\\n");
    exit(1);
}
echo "genuine\\n";
`;
}
