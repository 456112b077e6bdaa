import type { HeaderLine } from "../../api/timeline.ts";

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

export interface Snippet {
  readonly file: string;
  readonly command: string;
  readonly text: string;
}

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
  return `"${extra?.(escaped) ?? escaped}"`;
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
  readonly what: string;
}

interface LanguageRow {
  readonly extension: string;
  readonly run: string;
  readonly comment: string;
  readonly unicode: (codePoint: number) => string;
  /** Escapes other characters with a meaning in the language's literals. */
  readonly extra?: (escaped: string) => string;
  readonly write: (parts: Parts) => string;
}

const LANGUAGES: Readonly<Record<SnippetLanguage, LanguageRow>> = {
  TypeScript: {
    extension: "ts",
    run: "node",
    comment: "//",
    write: typescript,
    unicode: (codePoint) => `\\u{${hex(codePoint, 4)}}`,
  },
  Python: {
    extension: "py",
    run: "python3",
    comment: "#",
    write: python,
    unicode: shortOrLong,
  },
  Go: {
    extension: "go",
    run: "go run",
    comment: "//",
    write: go,
    unicode: shortOrLong,
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

/** The place of a body. */
export interface BodySource {
  /** Scheme, host and port of the daemon. */
  readonly origin: string;
  readonly taskId: string;
}

/** A request exactly as an attempt sent it. */
export interface SentRequest extends BodySource {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly HeaderLine[];
  /** Null if it does not exist or is too long; `hasBody` distinguishes them. */
  readonly body: string | null;
  readonly hasBody: boolean;
}

/** How many bytes of a body fit on the command line. */
const CURL_BYTES_MAX = 8192;

/** The request as a curl command. A body that is long, or that a terminal would change, is saved to a file first. */
export function curlCommand(request: SentRequest): string {
  const { method, url, headers, hasBody } = request;
  const lines = [
    // The options keep curl from reading the URL itself: it expands sets in brackets and braces, and removes dots.
    `curl -i --globoff --path-as-is${method === "GET" ? "" : ` -X ${shellQuoted(method)}`} ${shellQuoted(url)}`,
    ...headers.filter(isOurs).map(([name, value]) => `-H ${shellQuoted(headerText(name, value))}`),
    // curl sends these by itself, and the attempt did not.
    "-H 'Accept:' -H 'Expect:'",
    ...(hasBody ? [dataLine(request)] : []),
  ];
  const command = lines.join(" \\\n  ");
  return hasBody && !isInline(request.body)
    ? `${saveBodyCommand(request)} &&\n${command}`
    : command;
}

/** Saves the signed bytes of a task's postback, which are the answer of task_get. */
export function saveBodyCommand(source: BodySource): string {
  const url = `${source.origin}/v1/tasks/task_get/${encodeURIComponent(source.taskId)}?collect=false`;
  return `curl -sSf -H "Authorization: Bearer $API_KEY" ${shellQuoted(url)} -o ${shellQuoted(bodyFileOf(source))}`;
}

/** The file that {@link saveBodyCommand} writes. */
export function bodyFileOf({ taskId }: Pick<BodySource, "taskId">): string {
  // A task's id is a UUID; other characters could form a path.
  return `body-${taskId.replaceAll(/[^\w-]/g, "")}.json`;
}

/** A text as one word of a shell. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function dataLine(request: SentRequest): string {
  const { body } = request;
  if (body === null || !isInline(body)) {
    return `--data-binary ${shellQuoted(`@${bodyFileOf(request)}`)}`;
  }
  // A body that begins with @ would be read as the name of a file.
  return body.startsWith("@")
    ? `--data-raw ${shellQuoted(body)}`
    : `--data-binary ${shellQuoted(body)}`;
}

// Terminals interpret pasted control characters, and no command line holds a NUL.
const TYPED_KEYS = /[\0-\t\v-\u001f\u007f-\u009f]/;

function isInline(body: string | null): boolean {
  if (body === null || TYPED_KEYS.test(body)) return false;
  return new TextEncoder().encode(body).length <= CURL_BYTES_MAX;
}

const CURLS_OWN: ReadonlySet<string> = new Set(["host", "content-length", "connection"]);

function isOurs([name]: HeaderLine): boolean {
  return !CURLS_OWN.has(name.toLowerCase());
}

// curl leaves out a header that ends at its colon, and sends an empty one for a header that ends with a semicolon.
function headerText(name: string, value: string): string {
  return value === "" ? `${name};` : `${name}: ${value}`;
}
