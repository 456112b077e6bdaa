import { spawnSync } from "node:child_process";

import { headerOf } from "../kit/http.ts";
import type { ReceivedWebhook } from "../kit/receiver.ts";

/** The message to sign, and the key. */
export interface HmacJob {
  readonly key: Buffer;
  readonly message: Buffer;
}

/** HMAC-SHA256 by a program that shares no code with postbackd or Node. */
export interface ForeignHmac {
  readonly name: string;
  /** The lower-case hex HMACs, in the order of the jobs. Throws when the program fails. */
  readonly sign: (jobs: readonly HmacJob[]) => readonly string[];
}

// Both read `key,message` in Base64 from each line and write its HMAC.
const PYTHON = `
import base64, hashlib, hmac, sys
for line in sys.stdin:
    key, message = (base64.b64decode(part) for part in line.split(","))
    print(hmac.new(key, message, hashlib.sha256).hexdigest())
`;
const PERL = `
use Digest::SHA qw(hmac_sha256_hex);
use MIME::Base64;
while (<STDIN>) {
    my ($key, $message) = map { decode_base64($_) } split /,/;
    print hmac_sha256_hex($message, $key), "\\n";
}
`;

const PROGRAMS: readonly (readonly [name: string, ...command: readonly [string, ...string[]]])[] = [
  ["Python's hmac", "python3", "-c", PYTHON],
  ["Perl's Digest::SHA", "perl", "-e", PERL],
];

/** Python's hmac module, or else Perl, which comes along with git; null if neither is installed. */
export function findForeignHmac(): ForeignHmac | null {
  for (const [name, program, ...args] of PROGRAMS) {
    if (spawnSync(program, args, { input: "" }).status !== 0) continue;
    const sign: ForeignHmac["sign"] = (jobs) => {
      const lines = jobs.map(({ key, message }) => {
        return `${key.toString("base64")},${message.toString("base64")}\n`;
      });
      return run(program, args, lines.join("")).trimEnd().split("\n");
    };
    return { name, sign };
  }
  return null;
}

function run(program: string, args: readonly string[], input: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { input, encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(`${program} failed: ${error?.message ?? stderr}`);
}

/**
 * The ids of the tasks whose webhook does not carry, in `X-Signature` and in Standard Webhooks' `webhook-signature`, what
 * the foreign program makes of the received bytes.
 */
export function wronglySigned(
  webhooks: readonly ReceivedWebhook[],
  { hmac, secret }: { readonly hmac: ForeignHmac; readonly secret: string },
): readonly string[] {
  const plainKey = Buffer.from(secret, "utf8");
  const plain = hmac.sign(webhooks.map(({ signed }) => ({ key: plainKey, message: signed })));
  // `id.timestamp.body`, signed with the bytes of the secret's Base64; a pingback's body is empty.
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const standard = hmac.sign(
    webhooks.map(({ head, body }) => {
      const start = `${headerOf(head, "webhook-id")}.${headerOf(head, "webhook-timestamp")}.`;
      return { key, message: Buffer.concat([Buffer.from(start), body]) };
    }),
  );
  const isRight = ({ head, signature }: ReceivedWebhook, i: number): boolean => {
    const base64 = Buffer.from(standard[i] ?? "", "hex").toString("base64");
    const isStandard = headerOf(head, "webhook-signature") === `v1,${base64}`;
    return isStandard && signature === `sha256=${plain[i]}`;
  };
  return webhooks.filter((webhook, i) => !isRight(webhook, i)).map(({ taskId }) => taskId);
}
