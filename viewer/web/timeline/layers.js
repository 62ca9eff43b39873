// Places the nodes of a graph in layers: every node lies below all that it uses.

const SWEEPS = 6;

/**
 * `nodes`: [{id}], `edges`: [[from, to]] by id. Returns the ids in `layers`, from the top and from
 * the left, and `ways`: for each edge the ids that it passes. An edge over several layers has a
 * place in each of them, with an id of its own, so that it leads around nodes and not behind them.
 * Edges of a cycle, which only a damaged graph has, are ignored.
 */
export function layer(nodes, edges) {
  const known = new Set(nodes.map(({ id }) => id));
  const whole = edges.filter(([from, to]) => known.has(from) && known.has(to) && from !== to);
  const depth = depths(nodes, ...neighbours(nodes, whole));
  const layers = [];
  const put = (id, number) => (layers[number] ??= []).push(id);
  for (const { id } of nodes) put(id, depth.get(id));
  const places = [...nodes];
  const ways = whole.map(([from, to]) => {
    const way = [from];
    for (let number = depth.get(from) + 1; number < depth.get(to); ++number) {
      const id = `${from} ${to} ${number}`;
      put(id, number);
      places.push({ id });
      way.push(id);
    }
    return [...way, to];
  });
  const steps = ways.flatMap((way) => way.slice(1).map((id, i) => [way[i], id]));
  sortLayers(layers, ...neighbours(places, steps));
  return { layers, ways };
}

/** Maps of the ids above and of those below, by id. */
function neighbours(nodes, edges) {
  const above = new Map(nodes.map(({ id }) => [id, []]));
  const below = new Map(nodes.map(({ id }) => [id, []]));
  for (const [from, to] of edges) {
    below.get(from).push(to);
    above.get(to).push(from);
  }
  return [above, below];
}

/** Returns the length of the longest way to each node, by id. */
function depths(nodes, above, below) {
  const open = new Map(nodes.map(({ id }) => [id, above.get(id).length]));
  const ready = nodes.map(({ id }) => id).filter((id) => open.get(id) === 0);
  const depth = new Map(nodes.map(({ id }) => [id, 0]));
  for (let i = 0; i < ready.length; ++i) {
    for (const id of below.get(ready[i])) {
      depth.set(id, Math.max(depth.get(id), depth.get(ready[i]) + 1));
      open.set(id, open.get(id) - 1);
      if (open.get(id) === 0) ready.push(id);
    }
  }
  // A node with none above it moves down to the nodes that use it, so that edges are short.
  for (const { id } of nodes) {
    if (above.get(id).length > 0 || below.get(id).length === 0) continue;
    depth.set(id, Math.max(0, Math.min(...below.get(id).map((to) => depth.get(to))) - 1));
  }
  const used = [...new Set(depth.values())].sort((a, b) => a - b);
  for (const { id } of nodes) depth.set(id, used.indexOf(depth.get(id)));
  return depth;
}

/** Sorts each layer so that nodes lie near to those that they are connected with. */
function sortLayers(layers, above, below) {
  const place = new Map();
  const number = (ids) => ids.forEach((id, i) => place.set(id, i - (ids.length - 1) / 2));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (const ids of down ? layers : [...layers].reverse()) {
      const wish = new Map();
      ids.forEach((id) => {
        const near = (down ? above : below).get(id);
        const sum = near.reduce((total, other) => total + place.get(other), 0);
        wish.set(id, near.length > 0 ? sum / near.length : place.get(id));
      });
      ids.sort((a, b) => wish.get(a) - wish.get(b));
      number(ids);
    }
  }
}
