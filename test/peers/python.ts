import { spawnSync } from "node:child_process";

import type { Claim, SignaturePeer } from "./signature-peer.ts";

const PROGRAM = `
import base64, hashlib, hmac, sys
for line in sys.stdin:
    secret, message, signature = (base64.b64decode(part) for part in line.split(","))
    made = "sha256=" + hmac.new(secret, message, hashlib.sha256).hexdigest()
    print("right" if hmac.compare_digest(made.encode(), signature) else "wrong")
`;

/** Python's hmac module. */
export const PYTHON: SignaturePeer = {
  name: "Python's hmac",
  programs: [{ program: "python3", debianPackage: "python3" }],
  judge: (claims) => Promise.resolve(judge(claims)),
};

function judge(claims: readonly Claim[]): readonly boolean[] {
  const lines = claims.map(({ secret, message, signature }) => {
    const parts = [Buffer.from(secret), message, Buffer.from(signature)];
    return `${parts.map((part) => part.toString("base64")).join(",")}\n`;
  });
  const input = lines.join("");
  const { status, stdout, stderr } = spawnSync("python3", ["-c", PROGRAM], {
    ...{ input, encoding: "utf8" },
  });
  if (status !== 0) throw new Error(`python3 failed: ${stderr}`);
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => line === "right");
}
