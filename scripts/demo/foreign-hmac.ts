import { spawnSync } from "node:child_process";

/** The message to sign, and the key. */
export interface HmacJob {
  readonly key: Buffer;
  readonly message: Buffer;
}

/** HMAC-SHA256 by a program that shares no code with postbackd or Node. */
export interface ForeignHmac {
  readonly name: string;
  /** The lower-case hex HMACs, in the order of the jobs. Throws when the program fails. */
  sign(jobs: readonly HmacJob[]): readonly string[];
}

/**
 * Python's hmac module, or else the openssl command, or else Perl, which comes along with git; null where
 * none is installed.
 */
export function findForeignHmac(): ForeignHmac | null {
  if (succeeds("python3", ["-c", PYTHON])) return { name: "Python's hmac", sign: signWithPython };
  if (succeeds("openssl", ["version"])) return { name: "openssl dgst", sign: signWithOpenssl };
  if (succeeds("perl", ["-e", PERL])) return { name: "Perl's Digest::SHA", sign: signWithPerl };
  return null;
}

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

function signWithPython(jobs: readonly HmacJob[]): readonly string[] {
  return signLines("python3", ["-c", PYTHON], jobs);
}

function signWithPerl(jobs: readonly HmacJob[]): readonly string[] {
  return signLines("perl", ["-e", PERL], jobs);
}

/** For a program that reads `key,message` in Base64 from each line and writes its HMAC. */
function signLines(
  program: string,
  args: readonly string[],
  jobs: readonly HmacJob[],
): readonly string[] {
  const lines = jobs.map(({ key, message }) => {
    return `${key.toString("base64")},${message.toString("base64")}\n`;
  });
  return run(program, args, Buffer.from(lines.join("")))
    .trimEnd()
    .split("\n");
}

function signWithOpenssl(jobs: readonly HmacJob[]): readonly string[] {
  return jobs.map(({ key, message }) => {
    // The key shows in the list of processes: it is the demo's own and gone when the demo ends.
    const mac = ["-mac", "HMAC", "-macopt", `hexkey:${key.toString("hex")}`];
    const output = run("openssl", ["dgst", "-sha256", ...mac], message);
    // "HMAC-SHA2-256(stdin)= hex", with another name in front in each version.
    return /([0-9a-f]{64})\s*$/.exec(output)?.[1] ?? output;
  });
}

function succeeds(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { input: "" }).status === 0;
}

function run(program: string, args: readonly string[], input: Buffer): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { input, encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(`${program} failed: ${error?.message ?? stderr}`);
}
