import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { installSteps, ServiceError, unitText } from "../../src/ops/service.ts";
import { runHere } from "./in-process.ts";

const TEMPLATE = readFileSync(new URL("../../deploy/postbackd.service", import.meta.url), "utf8");

test("service install --dry-run prints every step and the unit", async (t) => {
  const { code, stdout, stderr } = await runHere(t, ["service", "install", "--dry-run"]);

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.ok(stdout.includes(TEMPLATE));
  assert.match(stdout, /^useradd --system .+ postbackd$/m);
  assert.match(stdout, /^systemctl enable postbackd$/m);
});

test("service uninstall --dry-run prints its steps", async (t) => {
  const { code, stdout } = await runHere(t, ["service", "uninstall", "--dry-run"]);

  assert.equal(code, 0);
  assert.match(stdout, /^systemctl disable --now postbackd$/m);
  assert.match(stdout, /^rm \/etc\/systemd\/system\/postbackd\.service$/m);
});

for (const [place, line] of [
  ["/usr/bin/postbackd", "ExecStart=/usr/bin/postbackd start"],
  ["/opt/a b/100%/$x/postbackd", 'ExecStart="/opt/a b/100%%/$$x/postbackd" start'],
] as const) {
  test(`the unit starts the executable at ${place}`, () => {
    assert.ok(unitText(place).includes(`\n${line} --config /etc/postbackd/postbackd.toml\n`));
  });
}

test("an executable in a folder that the unit hides is copied", () => {
  const [first, ...rest] = installSteps("/home/alice/postbackd");

  assert.ok(first?.kind === "run");
  assert.deepEqual(first.command.slice(-2), ["/home/alice/postbackd", "/usr/local/bin/postbackd"]);
  assert.ok(rest.every((step) => !JSON.stringify(step).includes("/home/alice")));
});

test("an executable whose path would break the unit is refused", () => {
  for (const place of ["/opt/a\nUser=root\n/x", '/opt/a" "b/x', "/opt/a'b/x", "/opt/a\\nb/x"]) {
    assert.throws(() => installSteps(place), ServiceError);
  }
  // The unit names the copy.
  assert.equal(installSteps('/home/a "b"/x')[0]?.kind, "run");
});
