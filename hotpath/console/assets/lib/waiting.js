// What waits for the decision of who is signed in.
import { useLoad } from "./load.js";
import { get } from "./api.js";

// useWaiting reads what waits, approvals that expire soonest first and then drafts, every few seconds. Pages may be
// short while there are more: a few are read.
export function useWaiting(decides) {
  const { data, error, loading, reload } = useLoad(async (signal) => {
    if (!decides) return { list: [], more: false };
    const list = [];
    let cursor, more = true;
    for (let page = 0; page < 3 && more; page++) {
      const read = await get("/v1/approvals", { query: { waiting_for: "me", limit: 100, cursor }, signal });
      list.push(...read.data);
      ({ next_cursor: cursor, has_more: more } = read.pagination);
    }
    return { list, more };
  }, [decides], decides ? 5000 : 0);
  return { list: data?.list, more: data?.more, count: data?.list.length ?? 0, error, loading, reload };
}
