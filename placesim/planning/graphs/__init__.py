"""Plans of graphs: conversion of a placed graph to a planning problem, and of a plan to annotations."""
