import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram } from "../helpers/program.ts";
import { areAtHand, OWN_ADDRESS, startPeer, type PeerProgram } from "./peer-process.ts";
import { exerciseSite, SITE_CERTIFICATE, SITE_NAME, siteFile, type SitePorts } from "./site.ts";

const CADDY: PeerProgram = { program: "caddy", debianPackage: "caddy" };

const SHIPPED = join(ROOT, "deploy", "Caddyfile");

// Caddy writes to its own folder only.
const COMMAND = ["env", "HOME=.", "XDG_CONFIG_HOME=.", "XDG_DATA_HOME=.", "caddy"] as const;

// No admin port, and no port but the test's own.
const OPTIONS = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n";

/** Everything that Caddy reads, by name. */
function siteFiles(upstream: string, ports: SitePorts): Record<string, string> {
  const bind = `\tbind ${OWN_ADDRESS}\n`;
  const site = siteFile("Caddyfile", {
    [`\nhttp://${SITE_NAME} {\n`]: `\nhttp://${SITE_NAME}:${ports.plain} {\n${bind}`,
    [`\nhttps://${SITE_NAME} {\n`]: `\nhttps://${SITE_NAME}:${ports.tls} {\n${bind}\ttls cert.pem key.pem\n`,
    "127.0.0.1:8787 ": `${upstream} `,
  });
  const { cert, key } = SITE_CERTIFICATE;
  return { Caddyfile: `${OPTIONS}${site}`, "cert.pem": cert, "key.pem": key };
}

test("caddy validate accepts deploy/Caddyfile and its format", async (t) => {
  if (!areAtHand(t, [CADDY])) return;
  const args = ["validate", "--adapter", "caddyfile", "--config", SHIPPED];
  const { code, stderr } = await runProgram(t, args, { command: COMMAND });

  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /"level":"error"|not formatted/);
});

exerciseSite({
  file: "Caddyfile",
  program: CADDY,
  async start(t, upstream, ports) {
    const at = { host: OWN_ADDRESS, port: ports.tls };
    const command = [...COMMAND, "run", "--config", "Caddyfile"] as const;
    await startPeer(t, { ...at, files: siteFiles(upstream, ports), command });
  },
});
