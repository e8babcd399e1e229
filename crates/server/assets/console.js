// What script adds to the console: signing in from a link, copying, and keys. Every page works without.
"use strict";

(() => {
  // The code of a one-time link stands behind "#": it is sent as a form and taken out of the address.
  const form = document.getElementById("sign-in");
  const code = location.hash.slice(1);
  if (form && /^[A-Za-z0-9_-]{43}$/.test(code)) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.namedItem("code").value = code;
    // Only where the address was opened by itself: a link of others could carry their code.
    if ("byItself" in form.dataset) {
      form.submit();
      return;
    }
  }

  // A form that was sent is not sent again by a second click; its key makes a repeat harmless anyway.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && event.target.method === "post") {
      setTimeout(() => { button.disabled = true; }, 0);
    }
  });
  // A page that comes back from the browser's memory can be sent again.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });

  const copy = async (text, button) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "hidden";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  for (const element of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain copy";
    button.textContent = "Copy";
    const text = element.textContent.replace(/^GET /, "");
    button.addEventListener("click", () => copy(text, button));
    (element.closest("a") || element).after(" ", button);
  }

  // The browser knows its zone, so that nobody has to write it.
  const look = document.getElementById("look");
  const zone = look?.elements.namedItem("zone");
  if (zone && zone.value === "") zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  const changeTheme = () => {
    const themes = ["system", "light", "dark"];
    const theme = look?.elements.namedItem("theme");
    if (!theme) return;
    theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length];
    look.submit();
  };

  // Keys: "/" finds, "g" and a letter goes to a place, "j" and "k" move between rows, "t" changes the theme.
  const base = document.querySelector(".brand")?.getAttribute("href");
  const places = { o: "", r: "runs", d: "doubts", a: "approvals", u: "duplicates", e: "effects", f: "flows", s: "schedules", c: "connections", w: "tasks" };
  let going = false;
  let row = -1;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (going) {
      going = false;
      if (event.key in places && base) location.assign(base + places[event.key]);
      return;
    }
    const rows = [...document.querySelectorAll("tbody tr a:first-of-type")];
    if (event.key === "/") {
      const box = document.getElementById("q");
      if (box) { event.preventDefault(); box.focus(); box.select(); }
    } else if (event.key === "g") {
      going = true;
    } else if (event.key === "t") {
      changeTheme();
    } else if ((event.key === "j" || event.key === "k") && rows.length > 0) {
      row = Math.min(rows.length - 1, Math.max(0, row + (event.key === "j" ? 1 : -1)));
      rows[row].focus();
    }
  });
})();
