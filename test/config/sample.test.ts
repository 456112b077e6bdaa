import assert from "node:assert/strict";
import { test } from "node:test";

import { SETTING_LIST } from "../../src/config/config.ts";
import type { Config } from "../../src/config/config.ts";
import { EXAMPLES_TITLE, sampleFile, tomlText } from "../../src/config/shown-setting.ts";
import { loaded } from "../helpers/config.ts";

const SETTING_LINE = /^#(?=[a-z_]+ = )/gm;

/** The sample, cut where the settings end. */
function parts(): readonly [settings: string, examples: string] {
  const sample = sampleFile();
  const end = sample.indexOf(EXAMPLES_TITLE);
  assert.ok(end > 0);
  return [sample.slice(0, end), sample.slice(end)];
}

function valuesOf(config: Config): Omit<Config, "file" | "sources"> {
  const { file: _file, sources: _sources, ...values } = config;
  return values;
}

test("the sample changes no setting", () => {
  const config = loaded({ toml: sampleFile() });

  assert.deepEqual(valuesOf(config), valuesOf(loaded({})));
  assert.ok([...config.sources.values()].every((source) => source === "default"));
});

test("the uncommented sample states the defaults", () => {
  const [settings] = parts();
  const config = loaded({ toml: settings.replaceAll(SETTING_LINE, "") });

  assert.deepEqual(valuesOf(config), valuesOf(loaded({})));
  for (const { key, inFile, default: standard } of SETTING_LIST) {
    const isStated = inFile && standard !== null;
    assert.equal(config.sources.get(key), isStated ? "file /srv/app/postbackd.toml" : "default");
  }
});

test("the sample describes every setting with its flag and its variable", () => {
  const [settings] = parts();

  for (const { key, inFile, description, flag, env } of SETTING_LIST) {
    const isThere = settings.includes(
      `# ${description}. (${flag === null ? "" : `--${flag}, `}${env})`,
    );
    assert.equal(isThere, inFile, key);
  }
});

test("the sample has examples of every kind of type and of a marketplace", () => {
  const [settings, examples] = parts();
  const config = loaded({ toml: settings + examples.replaceAll(/^#(?=[a-z_]+ = |\[)/gm, "") });

  assert.deepEqual(
    [...config.types.values()].map(({ kind }) => kind),
    ["command", "http", "worker"],
  );
  assert.equal(config.marketplaces.length, 1);
});

test("the sample has no line over 120 columns", () => {
  assert.doesNotMatch(sampleFile(), /.{121}/);
});

test("tomlText writes values that TOML reads back", () => {
  const code = 'a"b\\c\u00e9 \u{1f600}';
  const toml = `[[marketplaces]]\ncode = ${tomlText(code)}\nname = "x"\nlist = ${tomlText([[1, true], ["y"]])}`;

  assert.deepEqual(loaded({ toml }).marketplaces, [
    { code, name: "x", details: { list: [[1, true], ["y"]] } },
  ]);
});
