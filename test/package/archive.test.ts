import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { type TestContext, test } from "node:test";

import { z } from "zod";

import {
  PLATFORMS,
  type Platform,
  ROOT,
  hostPlatform,
  nodeVersion,
  version,
} from "../../scripts/manifest.ts";
import { billOfMaterials, npmComponents } from "../../scripts/package/contents.ts";
import { NODE_INTEGRITY } from "../../scripts/package/node.ts";
import { makeArchive, makeDeb } from "../../scripts/package/packages.ts";
import { sqliteVersion } from "../../src/store/sqlite/machine/connection.ts";
import { emptyPlace, runBinary } from "../dist/binary.ts";
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

const PLATFORM_FACTS: Readonly<Record<Platform, { debian: string; machine: number }>> = {
  "linux-x64": { debian: "amd64", machine: 62 },
  "linux-arm64": { debian: "arm64", machine: 183 },
};

/** Makes all packages with quick compression; null if the Node of the other platform is not available. */
async function makeAll(t: TestContext): Promise<string | null> {
  const folder = join(temporaryFolder(t), "packages");
  const script = join(ROOT, "scripts", "package.ts");
  const flags = ["--quick", "--folder", folder];
  const { code, stderr } = await runHere([process.execPath, "--import", "tsx", script, ...flags]);
  const isOffline = code !== 0 && /'npm pack /.test(stderr);
  if (isOffline && process.env["POSTBACKD_TEST_PEERS"] !== "required") {
    t.skip(`npm's registry gives no Node for ${PLATFORMS.join(" and ")}`);
    return null;
  }
  assert.equal(code, 0, stderr);
  return folder;
}

/** The machines of the ELF files in a file: the executable and its addon. */
function machinesIn(file: string): readonly number[] {
  const bytes = readFileSync(file);
  const head = Buffer.from("\x7fELF\x02\x01\x01", "latin1");
  const machines: number[] = [];
  for (let at = bytes.indexOf(head); at >= 0; at = bytes.indexOf(head, at + 1)) {
    // An executable or a shared object, and not text about such files.
    if ([2, 3].includes(bytes.readUInt16LE(at + 16))) machines.push(bytes.readUInt16LE(at + 18));
  }
  return machines;
}

test("npm run package makes the files of both platforms", async (t) => {
  const tools = { "dpkg-deb": "dpkg", tar: "tar", sha256sum: "coreutils" };
  const peers = Object.entries(tools).map(([program, debianPackage]) => {
    return { program, debianPackage };
  });
  if (!areAtHand(t, peers)) return;
  const folder = await makeAll(t);
  if (folder === null) return;

  const names = readdirSync(folder).toSorted();
  assert.deepEqual(names, [
    ...["SHA256SUMS", `postbackd-${version}-linux-arm64.tar.gz`],
    ...[`postbackd-${version}-linux-x64.tar.gz`, `postbackd-${version}.cdx.json`],
    ...[`postbackd-${version}.tgz`, `postbackd_${version}_amd64.deb`],
    `postbackd_${version}_arm64.deb`,
  ]);
  await t.test("SHA256SUMS has every other file", async () => {
    const said = await does("sh", "-c", 'cd "$0" && sha256sum --strict --check SHA256SUMS', folder);
    assert.equal(
      said,
      names
        .slice(1)
        .map((name) => `${name}: OK\n`)
        .join(""),
    );
  });
  for (const platform of PLATFORMS) {
    await t.test(`the files for ${platform} have its executable and its addon`, (part) =>
      isFor(part, { platform, folder }),
    );
  }
  await t.test("npm's package and the bill of materials are of this version", async () => {
    const archive = join(folder, `postbackd-${version}.tgz`);
    const manifest: unknown = JSON.parse(
      await does("tar", "-xzOf", archive, "package/package.json"),
    );
    const text = readFileSync(join(folder, `postbackd-${version}.cdx.json`), "utf8");
    const { bomFormat, metadata } = JSON.parse(text) as Record<string, unknown>;
    assert.equal(Reflect.get(Object(manifest), "name"), "postbackd");
    assert.equal(Reflect.get(Object(manifest), "version"), version);
    assert.equal(bomFormat, "CycloneDX");
    assert.equal(
      Reflect.get(Object(Reflect.get(Object(metadata), "component")), "version"),
      version,
    );
  });
});

async function isFor(
  t: TestContext,
  { platform, folder }: { readonly platform: Platform; readonly folder: string },
): Promise<void> {
  const { debian, machine } = PLATFORM_FACTS[platform];
  const unpacked = temporaryFolder(t);
  const root = `postbackd-${version}-${platform}`;
  await does("tar", "-xzf", join(folder, `${root}.tar.gz`), "-C", unpacked);
  const deb = join(folder, `postbackd_${version}_${debian}.deb`);
  const fields = await does("dpkg-deb", "--field", deb, "Package", "Version", "Architecture");
  await does("dpkg-deb", "--extract", deb, join(unpacked, "deb"));

  const executable = join(unpacked, root, "postbackd");
  const installed = join(unpacked, "deb", "usr", "bin", "postbackd");
  assert.equal(fields, `Package: postbackd\nVersion: ${version}\nArchitecture: ${debian}\n`);
  assert.deepEqual(machinesIn(executable), [machine, machine]);
  assert.ok(readFileSync(installed).equals(readFileSync(executable)));
  if (platform === hostPlatform()) assert.equal(await does(installed, "--version"), `${version}\n`);
}
