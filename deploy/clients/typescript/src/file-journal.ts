import { createHash, randomUUID } from "node:crypto";
import { link, mkdir, open, readFile, readdir, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { type Journal, type Line, type Lines, type Step, isOpen, steps } from "./journal.js";

/**
 * fileJournal keeps a journal in a directory of a local disk. Each step is a file, which is
 * complete and on disk before it gets its name, and never changes. The files of keys that are
 * no longer used may be deleted.
 */
export function fileJournal(path: string): Journal {
  const directory = resolve(path); // the program may change its working directory
  let made: Promise<unknown> | undefined;
  const ready = () => (made ??= make(directory).catch(again));
  const again = (problem: unknown) => {
    made = undefined; // try again later: the disk may be available then
    throw problem;
  };
  const pathOf = (name: string, step: Step) => join(directory, `${name}.${step}`);
  const nameOf = (key: string) => createHash("sha256").update(key).digest("hex");

  async function line(name: string, step: Step): Promise<Line | undefined> {
    try {
      return JSON.parse(await readFile(pathOf(name, step), "utf8")) as Line;
    } catch (problem) {
      if (code(problem) === "ENOENT") return undefined;
      throw problem;
    }
  }

  return {
    async add(key, step, content) {
      await ready();
      const whole = join(directory, `${randomUUID()}.tmp`);
      await write(whole, JSON.stringify(content));
      try {
        await link(whole, pathOf(nameOf(key), step)); // unlike a rename, it fails if the name exists
      } catch (problem) {
        if (code(problem) === "EEXIST") return false;
        throw problem;
      } finally {
        await rm(whole, { force: true });
      }
      await sync(directory);
      return true;
    },

    async read(key) {
      await ready();
      const lines: Lines = {};
      for (const step of steps) {
        const found = await line(nameOf(key), step);
        if (found) lines[step] = found;
      }
      return lines;
    },

    async open() {
      await ready();
      const files = new Set(await readdir(directory));
      const names = new Set([...files].map((file) => file.split(".")[0] as string));
      const found = [...names].filter((name) => isOpen((step) => files.has(`${name}.${step}`)));
      return Promise.all(found.map(async (name) => ((await line(name, "began")) ?? ((await line(name, "doubted")) as Line)).key));
    },
  };
}

function code(problem: unknown): string | undefined {
  return (problem as NodeJS.ErrnoException).code;
}

async function write(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** make creates a directory and missing ones above it, and syncs their names to disk. */
async function make(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 });
  for (let at = directory; first !== undefined && at.length >= first.length; at = dirname(at)) await sync(dirname(at));
}

async function sync(directory: string): Promise<void> {
  if (process.platform === "win32") return; // a directory cannot be opened there
  const file = await open(directory, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
