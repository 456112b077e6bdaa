import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { PLATFORMS, type Platform, ROOT, hostPlatform, version } from "../../scripts/manifest.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { areAtHand } from "../peers/peer-process.ts";
import { runHere } from "../systemd/machine.ts";

const PLATFORM_FACTS: Readonly<Record<Platform, { debian: string; machine: number }>> = {
  "linux-x64": { debian: "amd64", machine: 62 },
  "linux-arm64": { debian: "arm64", machine: 183 },
};

async function does(...command: [string, ...string[]]): Promise<string> {
  const { code, stdout, stderr } = await runHere(command);
  assert.equal(code, 0, `${command.join(" ")}: ${stderr}`);
  return stdout;
}

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
