import { findFreePort } from "../helpers/port.ts";
import type { Signers } from "./deliveries.ts";
import { MATRIX } from "./matrix.ts";
import { OWN_ADDRESS, startPeer } from "./peer-process.ts";
import type { ServerPeer } from "./server-peer.ts";

/**
 * The daemon `webhook` (github.com/adnanh/webhook), with its rule `payload-hmac-sha256`. It knows no
 * signature of anything but the body, so it judges postbacks alone.
 */
export const WEBHOOK: ServerPeer = {
  name: "webhook",
  programs: [{ program: "webhook", debianPackage: "webhook" }],
  kinds: ["postback"],
  async start(t, signers) {
    const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
    const listen = ["-ip", at.host, "-port", String(at.port), "-urlprefix", ""];
    return startPeer(t, {
      ...at,
      files: { "hooks.json": JSON.stringify(hooks(signers)) },
      command: ["webhook", "-verbose", "-hooks", "hooks.json", ...listen],
    });
  },
};

/** One hook for the path of each case. */
function hooks({ current, next }: Signers): readonly object[] {
  const rules = [hmacRule("X-Signature", current)];
  if (next !== null) rules.push(hmacRule("X-Signature-Next", next));
  return MATRIX.map(({ arrives }) => ({
    id: decodeURIComponent(arrives.postback.replace(/\?.*$/, "").slice(1)),
    "execute-command": "/bin/true",
    // The answer waits for the command, so it is a 200 only for what the command was run for.
    "include-command-output-in-response": true,
    "trigger-rule-mismatch-http-response-code": 401,
    // Without these two a wrong signature is an error of the rule, and answered 500.
    "trigger-signature-soft-failures": true,
    "trigger-rule": { or: [{ and: rules }] },
  }));
}

function hmacRule(name: string, secret: string): object {
  return {
    match: { type: "payload-hmac-sha256", secret, parameter: { source: "header", name } },
  };
}
