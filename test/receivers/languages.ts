import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { pathOf } from "./receiver-process.ts";
import type { Language } from "./receiver-process.ts";

const OWN_PACKAGE = import.meta.resolve("../helpers/own-package.ts");

export const TYPESCRIPT: Language = {
  name: "TypeScript",
  file: "examples/receivers/receiver.ts",
  probe: [process.execPath, "--version"],
  command: () => [process.execPath, "--import", OWN_PACKAGE, pathOf(TYPESCRIPT)],
};

export const PYTHON: Language = {
  name: "Python",
  file: "examples/receivers/receiver.py",
  probe: ["python3", "--version"],
  command: () => ["python3", pathOf(PYTHON)],
};

export const GO: Language = {
  name: "Go",
  file: "examples/receivers/receiver.go",
  probe: ["go", "version"],
  command: (folder) => [buildGo(pathOf(GO), folder)],
};

export const PHP: Language = {
  name: "PHP",
  file: "examples/receivers/receiver.php",
  probe: ["php", "--version"],
  command: () => ["php", "-S", "127.0.0.1:0", pathOf(PHP)],
};

/** Builds a program of one file in an empty folder and returns the path of the executable. */
export function buildGo(file: string, folder: string): string {
  const executable = join(folder, "program");
  const { status, stderr } = spawnSync("go", ["build", "-o", executable, file], {
    cwd: folder,
    env: { ...process.env, ...goEnvironment(folder) },
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`go build failed:\n${stderr}`);
  return executable;
}

/** Go builds with the standard library only, downloads nothing and writes to `folder` only. */
export function goEnvironment(folder: string): Readonly<Record<string, string>> {
  return {
    GOCACHE: join(folder, "cache"),
    GOPATH: join(folder, "path"),
    GOFLAGS: "",
    GO111MODULE: "off",
    GOPROXY: "off",
    GOTOOLCHAIN: "local",
  };
}
