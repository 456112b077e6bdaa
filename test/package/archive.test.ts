import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { z } from "zod";

import { nodeVersion, PLATFORMS, version } from "../../scripts/manifest.ts";
import { billOfMaterials, npmComponents } from "../../scripts/package/contents.ts";
import { NODE_INTEGRITY } from "../../scripts/package/node.ts";
import { makeArchive, makeDeb, writeSums } from "../../scripts/package/packages.ts";
import { sqliteVersion } from "../../src/store/sqlite/machine/connection.ts";
import { runBinary, emptyPlace } from "../dist/binary.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { areAtHand } from "../peers/peer-process.ts";
import { runHere } from "../systemd/machine.ts";
import { testOrder } from "./packages.ts";

const order = testOrder();
const LINTIAN = { program: "lintian", debianPackage: "lintian" };
const DPKG = { program: "dpkg-deb", debianPackage: "dpkg" };

async function does(...command: [string, ...string[]]): Promise<string> {
  const { code, stdout, stderr } = await runHere(command);
  assert.equal(code, 0, `${command.join(" ")}: ${stderr}`);
  return stdout;
}

function folderIn(t: TestContext, name: string): string {
  const folder = join(temporaryFolder(t), name);
  mkdirSync(folder);
  return folder;
}

test("an archive holds the executable and what goes with it, all of root's", async (t) => {
  const archive = makeArchive({ ...order, folder: folderIn(t, "made") });
  const folder = folderIn(t, "unpacked");
  await does("tar", "-xzf", archive, "-C", folder);
  const listed = await does("tar", "-tvzf", archive, "--numeric-owner");
  const root = join(folder, basename(archive, ".tar.gz"));
  const checked = await runProgram(t, ["config", "check", "--config", "postbackd.toml"], {
    command: [join(root, "postbackd")],
    cwd: root,
  });

  const lines = listed.trim().split("\n");
  assert.ok(
    lines.every((line) => /^(?:-rw-r--r--|[-d]rwxr-xr-x) 0\/0 /.test(line)),
    listed,
  );
  const names = lines.map((line) => line.slice(line.indexOf("/", line.indexOf("postbackd-")) + 1));
  assert.deepEqual(names.filter((name) => name !== "" && !name.endsWith("/")).toSorted(), [
    ...["CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-NOTICES"],
    ...["completion/_postbackd", "completion/postbackd.bash", "completion/postbackd.fish"],
    ...["man/postbackd.1", "postbackd", "postbackd.service", "postbackd.toml"],
  ]);
  assert.equal(checked.code, 0, checked.stderr);
});

test("an archive that is made again is the same, byte for byte", (t) => {
  const first = makeArchive({ ...order, folder: folderIn(t, "first") });
  const second = makeArchive({ ...order, folder: folderIn(t, "second") });

  assert.ok(readFileSync(first).equals(readFileSync(second)));
});

test("a Debian package that is made again is the same, byte for byte", (t) => {
  if (!areAtHand(t, [DPKG])) return;
  const first = makeDeb({ ...order, folder: folderIn(t, "first") });
  const second = makeDeb({ ...order, folder: folderIn(t, "second") });

  assert.ok(readFileSync(first).equals(readFileSync(second)));
});

test("lintian has no error and no warning for a Debian package whose builder says who maintains it", async (t) => {
  if (!areAtHand(t, [LINTIAN, DPKG])) return;
  const maintainer = "A Builder <builder@debian.org>";
  const deb = makeDeb({ ...order, maintainer, folder: folderIn(t, "made") });

  const { code, stdout } = await runHere(["lintian", "--fail-on", "error,warning", deb]);
  const named = await does("dpkg-deb", "--field", deb, "Maintainer");

  assert.deepEqual({ code, stdout }, { code: 0, stdout: "" });
  assert.equal(named, `${maintainer}\n`);
});

test("sha256sum finds every file as SHA256SUMS has it, and a changed one not", async (t) => {
  const archive = makeArchive({ ...order, folder: folderIn(t, "made") });
  writeSums(dirname(archive), [archive]);
  const check = ["sh", "-c", 'cd "$0" && sha256sum --check SHA256SUMS', dirname(archive)] as const;
  const before = await runHere(check);
  await does("truncate", "--size=-1", archive);
  const after = await runHere(check);

  assert.equal(before.stdout, `${basename(archive)}: OK\n`);
  assert.equal(after.stdout, `${basename(archive)}: FAILED\n`);
});

const BILL = z.object({
  bomFormat: z.literal("CycloneDX"),
  serialNumber: z
    .string()
    .regex(/^urn:uuid:[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-8[\da-f]{3}-[\da-f]{12}$/),
  metadata: z.object({ component: z.object({ name: z.string(), version: z.string() }) }),
  components: z.array(z.object({ "bom-ref": z.string(), name: z.string(), version: z.string() })),
  dependencies: z.array(z.object({ ref: z.string(), dependsOn: z.array(z.string()) })),
});

test("the bill of materials has Node, SQLite and every package of the executable, once", () => {
  const text = billOfMaterials(order.date);
  const bill = BILL.parse(JSON.parse(text));

  const found = bill.components.map((one) => one["bom-ref"]);
  const wanted = npmComponents().map(({ name, version: of }) => `${name}@${of}`);
  const { name, version: own } = bill.metadata.component;
  assert.deepEqual({ name, own }, { name: "postbackd", own: version });
  assert.equal(new Set(found).size, found.length);
  assert.deepEqual(
    [...new Set(wanted), `node@${nodeVersion}`, `sqlite@${sqliteVersion()}`].filter(
      (one) => !found.includes(one),
    ),
    [],
  );
  const known = new Set([...found, `postbackd@${version}`]);
  const unknown = bill.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]);
  assert.deepEqual(
    unknown.filter((ref) => !known.has(ref)),
    [],
  );
  assert.equal(billOfMaterials(order.date), text);
});

test("the bill of materials has the Node and the SQLite that the executable says it has", async (t) => {
  const { stdout } = await runBinary(t, ["--version", "--json"], emptyPlace(t));

  const said: unknown = JSON.parse(stdout);
  assert.equal(Reflect.get(Object(said), "node"), nodeVersion);
  assert.equal(Reflect.get(Object(said), "sqlite"), sqliteVersion());
});

test("the notices have a licence for each package of the executable", () => {
  const text = order.parts["THIRD-PARTY-NOTICES"].toString();

  for (const { name, version: of, license } of npmComponents()) {
    assert.notEqual(license, "unknown", name);
    assert.ok(text.includes(`\n${name} ${of} (${license})\n`), name);
  }
  assert.ok(text.includes("Copyright Node.js contributors"));
});

test("the Node of other platforms is pinned at the version that everything runs on", () => {
  const names = PLATFORMS.map((platform) => `node-${platform}@${nodeVersion}`);
  assert.deepEqual(Object.keys(NODE_INTEGRITY), names);
});
