import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

import { ROOT } from "../manifest.ts";

const MANIFEST = "package.json";

/**
 * Packages of npm that are too large for every checkout, as the package.json of a folder names them in exact versions.
 * They are installed in the cache of node_modules, once for each content of package.json, and none of their scripts runs.
 */
export class NpmPackages {
  /** The folder of the installation: modules in it find the packages. */
  readonly folder: string;
  readonly #from: string;
  readonly #before: string;

  /** Their own dependencies have the versions of the day `before`, in place of a lock with thousands of lines. */
  constructor(from: string, { before }: { readonly before: string }) {
    this.#from = from;
    this.#before = before;
    this.folder = join(ROOT, "node_modules", ".cache", basename(from));
  }

  get isInstalled(): boolean {
    const there = join(this.folder, MANIFEST);
    return (
      existsSync(there) && readFileSync(there).equals(readFileSync(join(this.#from, MANIFEST)))
    );
  }

  /** Makes npm install them unless they are. Throws, with npm's message, if it cannot. */
  install(): void {
    if (this.isInstalled) return;
    // In a folder next to their own and then moved: an interrupted installation does not count.
    const folder = `${this.folder}-${process.pid}`;
    mkdirSync(folder, { recursive: true });
    cpSync(join(this.#from, MANIFEST), join(folder, MANIFEST));
    const { status, stderr } = spawnSync(
      "npm",
      ["install", `--before=${this.#before}`, "--ignore-scripts", "--prefer-offline", "--no-audit"],
      { cwd: folder, encoding: "utf8" },
    );
    if (status !== 0) {
      rmSync(folder, { recursive: true, force: true });
      throw new Error(`npm could not install the packages of ${this.#from}: ${stderr}`);
    }
    this.#place(folder);
  }

  #place(folder: string): void {
    if (existsSync(this.folder) && !this.isInstalled) rmSync(this.folder, { recursive: true });
    try {
      renameSync(folder, this.folder);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      // Another process was quicker, and may be running programs of its installation.
      if (!this.isInstalled) throw error;
    }
  }
}
