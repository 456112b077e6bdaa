import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

import { ROOT } from "../manifest.ts";

const FILES = ["package.json", "package-lock.json"] as const;

/**
 * Packages of npm that are too large for everybody, as a folder with a package.json and its lock names them. They are
 * installed in the cache of node_modules, once for each content of the lock, and no script of theirs is run.
 */
export class NpmPackages {
  /** Where they are installed: modules in it find them. */
  readonly folder: string;
  readonly #from: string;

  constructor(from: string) {
    this.#from = from;
    this.folder = join(ROOT, "node_modules", ".cache", basename(from));
  }

  get isInstalled(): boolean {
    const there = join(this.folder, "package-lock.json");
    if (!existsSync(there)) return false;
    return readFileSync(there).equals(readFileSync(join(this.#from, "package-lock.json")));
  }

  /** Has npm install them unless they are. Throws, with what npm says, when it cannot. */
  install(): void {
    if (this.isInstalled) return;
    // Beside their place and then moved there: an installation that was broken off is none.
    const folder = `${this.folder}-${process.pid}`;
    mkdirSync(folder, { recursive: true });
    for (const file of FILES) cpSync(join(this.#from, file), join(folder, file));
    const args = ["ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
    if (status !== 0) {
      rmSync(folder, { recursive: true, force: true });
      throw new Error(`npm could not install the packages of ${this.#from}: ${stderr}`);
    }
    this.#place(folder);
  }

  #place(folder: string): void {
    // Those of another lock.
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
