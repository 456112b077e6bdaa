import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test, type TestContext } from "node:test";

import { z } from "zod";

import { nodeVersion, PLATFORMS, version } from "../../scripts/manifest.ts";
import { billOfMaterials, npmComponents } from "../../scripts/package/contents.ts";
import { NODE_INTEGRITY } from "../../scripts/package/node.ts";
import { makeArchive, makeDeb } from "../../scripts/package/packages.ts";
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

test("an archive has the executable and its documents, all owned by root", async (t) => {
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

test("an archive and a Debian package are the same to the byte when they are made again", (t) => {
  for (const make of areAtHand(t, [DPKG]) ? [makeArchive, makeDeb] : [makeArchive]) {
    const [first, second] = ["first", "second"].map((name) =>
      readFileSync(make({ ...order, folder: folderIn(t, name) })),
    );
    assert.ok(first !== undefined && second?.equals(first) === true);
  }
});

test("lintian has no error and no warning for a Debian package with a maintainer", async (t) => {
  if (!areAtHand(t, [LINTIAN, DPKG])) return;
  const maintainer = "A Builder <builder@debian.org>";
  const deb = makeDeb({ ...order, maintainer, folder: folderIn(t, "made") });

  const { code, stdout } = await runHere(["lintian", "--fail-on", "error,warning", deb]);
  const named = await does("dpkg-deb", "--field", deb, "Maintainer");

  assert.deepEqual({ code, stdout }, { code: 0, stdout: "" });
  assert.equal(named, `${maintainer}\n`);
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

test("the bill of materials has Node, SQLite and every package of the executable, once", async (t) => {
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
  const { stdout } = await runBinary(t, ["--version", "--json"], emptyPlace(t));
  const { node, sqlite } = JSON.parse(stdout);
  assert.deepEqual([node, sqlite], [nodeVersion, sqliteVersion()]);
});

test("the notices have a licence for each package of the executable", () => {
  const text = order.parts["THIRD-PARTY-NOTICES"].toString();

  for (const { name, version: of, license } of npmComponents()) {
    assert.notEqual(license, "unknown", name);
    assert.ok(text.includes(`\n${name} ${of} (${license})\n`), name);
  }
  assert.ok(text.includes("Copyright Node.js contributors"));
});

test("the Node of each platform is pinned at the version of the project", () => {
  const names = PLATFORMS.map((platform) => `node-${platform}@${nodeVersion}`);
  assert.deepEqual(Object.keys(NODE_INTEGRITY), names);
});
