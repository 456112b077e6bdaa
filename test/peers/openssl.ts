import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Claim, SignaturePeer } from "./signature-peer.ts";

/** The command `openssl dgst`, which makes signatures of its own to compare with. */
export const OPENSSL: SignaturePeer = {
  name: "openssl dgst",
  programs: [{ program: "openssl", debianPackage: "openssl" }],
  judge: (claims) => Promise.resolve(judge(claims)),
};

function judge(claims: readonly Claim[]): readonly boolean[] {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-peer-"));
  try {
    const verdicts = new Map<Claim, boolean>();
    // One run for each key: a process for each of hundreds of signatures would take seconds.
    for (const [secret, own] of Map.groupBy(claims, (claim) => claim.secret)) {
      const made = sign(secret, { messages: own.map(({ message }) => message), folder });
      for (const [index, claim] of own.entries()) {
        verdicts.set(claim, claim.signature === `sha256=${made[index]}`);
      }
    }
    return claims.map((claim) => verdicts.get(claim) ?? false);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The lower-case hex HMACs of the messages, in their order. */
function sign(
  secret: string,
  { messages, folder }: { readonly messages: readonly Buffer[]; readonly folder: string },
): readonly string[] {
  const files = messages.map((message, index) => {
    writeFileSync(join(folder, String(index)), message);
    return String(index);
  });
  const key = `hexkey:${Buffer.from(secret).toString("hex")}`;
  const args = ["dgst", "-sha256", "-mac", "HMAC", "-macopt", key, ...files];
  const { status, stdout, stderr } = spawnSync("openssl", args, { cwd: folder, encoding: "utf8" });
  if (status !== 0) throw new Error(`openssl failed: ${stderr}`);
  // "HMAC-SHA2-256(0)= hex", with another name in front in each version.
  return [...stdout.matchAll(/= ([0-9a-f]{64})$/gm)].flatMap(([, hex]) => hex ?? []);
}
