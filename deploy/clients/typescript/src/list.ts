import type { CallOptions } from "./send.js";
import type { Page } from "./types.js";

/**
 * List is a list of the service. `for await` yields the elements of all its pages; `page` reads
 * one page, by the cursor of the page before.
 */
export class List<T> implements AsyncIterable<T> {
  constructor(private readonly read: (cursor?: string, call?: CallOptions) => Promise<Page<T>>) {}

  page(cursor?: string, call?: CallOptions): Promise<Page<T>> {
    return this.read(cursor, call);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let cursor: string | undefined; ;) {
      const page = await this.read(cursor);
      yield* page.data;
      if (!page.pagination.has_more) return;
      cursor = page.pagination.next_cursor ?? undefined;
    }
  }

  /** all reads all pages into an array. */
  async all(): Promise<T[]> {
    const all: T[] = [];
    for await (const element of this) all.push(element);
    return all;
  }
}
